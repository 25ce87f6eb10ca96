"""What the commands share: flags, error lines, exit codes."""
