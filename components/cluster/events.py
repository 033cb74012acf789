"""What is known about the words of kubelets."""

IMAGE_REASONS = ("ErrImagePull", "ImagePullBackOff")
"""In turns: an image cannot be pulled; it is waited before that is tried again."""

VAGUE_MESSAGES = tuple(f"Error: {reason}" for reason in IMAGE_REASONS)
"""So begins the event after the one that says why it cannot be pulled."""
