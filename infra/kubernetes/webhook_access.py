"""Who a repository's webhook is: an account of its own that may start runs of one template, and no more."""

from infra.kubernetes.permissions import Account, Manifest, Rule, binding, role

_ARGO = "argoproj.io"


def webhook_account(experiment: str) -> Account:
    """Its rights. That of one experiment cannot start another's runs, whatever is posted."""
    return Account(
        f"{experiment}-webhook",
        f"pushes that start runs of {experiment}",
        (
            Rule(_ARGO, ("workfloweventbindings",), ("list",), "the Argo Server looks for whom a post is meant"),
            Rule(_ARGO, ("workflowtemplates",), ("get",), "what is started", names=(experiment,)),
            Rule(_ARGO, ("workflows",), ("create",), "start it"),
        ),
    )


def webhook_access(experiment: str, *, namespace: str) -> list[Manifest]:
    """ServiceAccount, Role and binding, and the Secret that the cluster fills with its token, under the name by which
    the Argo Server looks for it.
    """
    account = webhook_account(experiment)
    token = {
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {
            "name": f"{account.name}.service-account-token",
            "annotations": {"kubernetes.io/service-account.name": account.name},
        },
    }  # fmt: skip
    account_object = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account.name}}
    bound = binding("RoleBinding", account.name, "Role", account.name, account=account.name, namespace=namespace)
    return [account_object, role(account), bound, token]
