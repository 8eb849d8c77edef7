# The manager's image for every platform: make image-all, or docker buildx bake --push.

variable "IMG" {
  default = "registry.example.com/ctrlruntime-manager:0.1.0"
}

# Pins the base image: @sha256:... as `docker buildx imagetools inspect python:3.11-slim-bookworm` prints it.
variable "BASE_DIGEST" {
  default = ""
}

# The commit that is built.
variable "REVISION" {
  default = ""
}

group "default" {
  targets = ["manager"]
}

target "manager" {
  context = "."
  dockerfile = "Dockerfile"
  platforms = ["linux/amd64", "linux/arm64"]
  tags = [IMG]
  args = {
    BASE_DIGEST = BASE_DIGEST
    REVISION = REVISION
  }
}
