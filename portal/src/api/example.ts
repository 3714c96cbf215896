//! The structure of the example. It comes with the portal, as a service need have no mirror of public entries.
import { expectData, molbox } from "./client.ts";
import { newKey } from "./key.ts";
import { discard } from "./pending.ts";
import { register, upload } from "./upload.ts";

const NAME = "villin";
const STRUCTURE = new URL("../../../examples/1vii.pdb", import.meta.url);

/** Makes it a file of the account, unless it is one already; its name. */
export async function registerExample(): Promise<string> {
  const { items } = await expectData(molbox.GET("/info/files", { params: { query: { name: NAME, status: "ready", limit: 1 } } }));
  if (items.length > 0) return NAME;
  const content = await (await fetch(STRUCTURE)).blob();
  let pending: string | undefined;
  const progress = { begun: (fileId: string) => void (pending = fileId), sent: () => undefined };
  try {
    const uploaded = await upload(new File([content], `${NAME}.pdb`), progress, new AbortController().signal);
    await register(uploaded, NAME, newKey());
  } catch (error) {
    if (pending !== undefined) void discard(pending);
    throw error;
  }
  return NAME;
}
