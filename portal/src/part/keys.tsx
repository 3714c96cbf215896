//! The keys of an account, for the terminal and for programs: made, shown once, revoked.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";

import { baseUrl, expectData, molbox, type Schemas } from "../api/client.ts";
import { Copy } from "./copy.tsx";
import { Dialog } from "./dialog.tsx";
import { Input, textOf } from "./input.tsx";
import { useOnce } from "./mutation.ts";
import { Failure } from "./notice.tsx";
import { When } from "./when.tsx";
import { useWrong } from "./wrong.ts";

const KEYS = ["keys"];

export function Keys() {
  const keys = useQuery({ queryKey: KEYS, queryFn: () => expectData(molbox.GET("/info/keys")) });
  const [asks, ask] = useState<"new" | Schemas["ApiKeySummary"]>();
  return <section className="panel stack" aria-labelledby="keys">
    <div className="spread">
      <h2 id="keys">API keys</h2>
      <button className="main" onClick={() => ask("new")}>New key</button>
    </div>
    {keys.error && <Failure error={keys.error} again={() => void keys.refetch()} />}
    {keys.data && keys.data.keys.length === 0 && <p className="quiet">
      There is none. A key signs in the command line and programs; a browser needs none.
    </p>}
    {keys.data && keys.data.keys.length > 0 && <table>
      <thead><tr>
        <th scope="col">Name</th>
        <th scope="col" className="wide">Key</th>
        <th scope="col" className="wide">Made</th>
        <th scope="col" className="wide">Expires</th>
        <th scope="col">Last used</th>
        <th scope="col"><span className="unseen">What can be done</span></th>
      </tr></thead>
      <tbody>{keys.data.keys.map((key) => <tr key={key.key_id}>
        <th scope="row">{key.name}{key.expires_at !== undefined
          && <div className="small only-narrow quiet">expires <When at={key.expires_at} /></div>}</th>
        <td className="mono wide">{key.key_id}…</td>
        <td className="wide"><When at={key.created_at} /></td>
        <td className="wide">{key.expires_at === undefined ? "never" : <When at={key.expires_at} />}</td>
        <td>{key.last_used_at === undefined ? <span className="quiet">never</span> : <When at={key.last_used_at} />}</td>
        <td className="actions">
          <button className="danger" aria-label={`Revoke ${key.name}`} onClick={() => ask(key)}>Revoke…</button>
        </td>
      </tr>)}</tbody>
    </table>}
    {asks === "new" && <NewKey onClose={() => ask(undefined)} />}
    {asks !== undefined && asks !== "new" && <Revoke of={asks} onClose={() => ask(undefined)} />}
  </section>;
}

/** How long a key is good, in days. */
const TERMS: [name: string, days: number | undefined][] = [
  ["30 days", 30], ["90 days", 90], ["1 year", 365], ["never", undefined],
];

/** What is wrong with the name of a key. */
function unnamed(data: FormData): { name?: string } {
  return textOf(data, "name").trim() === "" ? { name: "Blanks alone are no name." } : {};
}

function NewKey({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const { wrong, isRight, look } = useWrong(unnamed);
  const create = useOnce({
    mutationFn: (body: Schemas["KeyRequest"]) => expectData(molbox.POST("/submit/key", { body })),
    onSuccess: () => queries.invalidateQueries({ queryKey: KEYS }),
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const data = new FormData(event.currentTarget);
    const days = TERMS[Number(textOf(data, "term"))]?.[1];
    if (!isRight(data) || create.isPending) return;
    create.mutate({ name: textOf(data, "name").trim(), ...(days !== undefined && { days }) });
  };
  if (create.data) return <ShownOnce made={create.data} onClose={onClose} />;
  return <Dialog title="New key" onClose={onClose}>
    <form className="stack" onSubmit={submit} onInput={look}>
      <Input label="Name" name="name" help="What it is for, or where it lies: laptop, nightly replicas." longest={100}
        required autoFocus wrong={wrong.name} />
      <div className="field">
        <label htmlFor="term">Expires</label>
        <select id="term" name="term" defaultValue={1}>
          {TERMS.map(([name], i) => <option key={name} value={i}>{name}</option>)}
        </select>
      </div>
      {create.error && <Failure error={create.error} />}
      <div className="end">
        <button type="button" onClick={onClose}>Close</button>
        <button className="main" aria-busy={create.isPending}>Make the key</button>
      </div>
    </form>
  </Dialog>;
}

function ShownOnce({ made, onClose }: { made: Schemas["NewKey"]; onClose: () => void }) {
  return <Dialog title="Your new key">
    <p>It is shown this once. Whoever has it can do what you can, but make no other keys.</p>
    <div className="row">
      <code className="box">{made.key}</code>
      <Copy text={made.key} label="Copy the key" />
    </div>
    <p>In a terminal, which then asks for it:</p>
    <div className="row">
      <code className="box">{`molbox login --base-url ${baseUrl}`}</code>
      <Copy text={`molbox login --base-url ${baseUrl}`} label="Copy the command" />
    </div>
    <div className="end"><button className="main" onClick={onClose}>I have it</button></div>
  </Dialog>;
}

function Revoke({ of, onClose }: { of: Schemas["ApiKeySummary"]; onClose: () => void }) {
  const queries = useQueryClient();
  const revoke = useOnce({
    mutationFn: () => expectData(molbox.DELETE("/info/key/{key_id}", { params: { path: { key_id: of.key_id } } })),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: KEYS });
      onClose();
    },
  });
  return <Dialog title={`Revoke ${of.name}?`} onClose={onClose}>
    <p>Whatever uses it is refused from now on, in the middle of an upload or a download too.</p>
    {revoke.error && <Failure error={revoke.error} />}
    <div className="end">
      <button onClick={onClose}>Keep it</button>
      <button className="danger" aria-busy={revoke.isPending} onClick={() => { if (!revoke.isPending) revoke.mutate(); }}>
        Revoke
      </button>
    </div>
  </Dialog>;
}
