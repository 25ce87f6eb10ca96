"""CCP: prototypes chosen from a pool of images, and projections that end on a validation plateau."""
