# The head of a module of all examples in docs/reference, which is only type-checked.
import os

from molbox_client import AuthenticatedClient


def client(base_url: str) -> AuthenticatedClient:
    key = os.environ["MOLBOX_API_KEY"]
    return AuthenticatedClient(base_url=base_url, token=key, prefix="", auth_header_name="x-api-key")


molbox = client(os.environ["MOLBOX_BASE_URL"])
margin = client(os.environ["MOLBOX_MARGIN_URL"])
