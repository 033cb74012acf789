"""A real Kubernetes with Argo, JobSet and S3 on one Linux host, for tests and trials. See README.md."""
