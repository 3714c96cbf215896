# The head of a module of all examples in docs/reference, which is only type-checked.
import os

import molbox_margin
import molbox_workflow

key = os.environ["MOLBOX_API_KEY"]
molbox = molbox_workflow.AuthenticatedClient(
    base_url=os.environ["MOLBOX_BASE_URL"], token=key, prefix="", auth_header_name="x-api-key"
)
margin = molbox_margin.AuthenticatedClient(
    base_url=os.environ["MOLBOX_MARGIN_URL"], token=key, prefix="", auth_header_name="x-api-key"
)
