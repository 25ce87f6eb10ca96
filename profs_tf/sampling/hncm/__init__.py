"""Hard negative class mining (HNCM): batches of classes that lie near each other."""
