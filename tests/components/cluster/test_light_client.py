"""The package is loaded without what is never used of it, and what is used is what it was."""

import subprocess
import sys


def test_the_models_are_not_loaded_and_the_configuration_is_the_packages_own() -> None:
    program = """
import sys
from components.cluster.light_client import load_kubernetes
load_kubernetes()
load_kubernetes()
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config.kube_config import KubeConfigLoader
assert Configuration().get_api_key_with_prefix("BearerToken") is None
assert RESTClientObject(Configuration()).pool_manager is not None
assert not hasattr(sys.modules["kubernetes.client.models"], "__file__")
assert all(type(finder).__name__ != "_Unused" for finder in sys.meta_path)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_package_that_is_loaded_already_is_left_as_it_is() -> None:
    program = """
import kubernetes.client
from components.cluster.light_client import load_kubernetes
load_kubernetes()
assert kubernetes.client.V1Pod(kind="Pod").kind == "Pod"
"""
    subprocess.run([sys.executable, "-c", program], check=True)
