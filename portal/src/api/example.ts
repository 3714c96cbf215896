//! The structure of the example. It comes with the portal, as a service need have no mirror of public entries.
import { expectData, molbox } from "./client.ts";
import { newKey } from "./key.ts";
import { register, upload } from "./upload.ts";

const NAME = "villin";
const STRUCTURE = new URL("../../../examples/1vii.pdb", import.meta.url);

/** Makes it a file of the account, unless it is one already; its name. */
export async function registerExample(): Promise<string> {
  const { items } = await expectData(molbox.GET("/info/files", { params: { query: { name: NAME, status: "ready", limit: 1 } } }));
  if (items.length > 0) return NAME;
  const content = await (await fetch(STRUCTURE)).blob();
  const uploaded = await upload(new File([content], `${NAME}.pdb`), () => undefined, new AbortController().signal);
  await register(uploaded, NAME, newKey());
  return NAME;
}
