"""Refuses a manifest that Argo would reject or, worse, accept and misread."""
