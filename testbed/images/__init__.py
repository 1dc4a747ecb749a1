"""Programs and images of real clusters, built where no image can be pulled, and kept by the digest of their inputs."""
