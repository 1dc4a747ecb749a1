"""What a real cluster is made of where no image can be pulled: programs and images, built and kept by what they are."""
