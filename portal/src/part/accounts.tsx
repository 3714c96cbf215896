//! The accounts of the service: made, invited, changed, disabled by administrators.
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, type ReactNode, useId, useState } from "react";

import { expectData, molbox, Refused, type Schemas } from "../api/client.ts";
import { numberOf } from "../form/form.ts";
import { Copy } from "./copy.tsx";
import { Dialog } from "./dialog.tsx";
import { Input, textOf } from "./input.tsx";
import { useOnce } from "./mutation.ts";
import { Failure } from "./notice.tsx";
import { bytes, hours, number } from "./number.ts";
import { Pages, usePaging } from "./pages.tsx";
import { QUEUE } from "./queue.tsx";
import { When } from "./when.tsx";
import { useWrong } from "./wrong.ts";

type Account = Schemas["ManagedAccount"];
type Change = Schemas["AccountChange"];
type Asked = { what: "new" } | { what: "invite" | "change" | "disable"; of: Account };

const ACCOUNTS = ["accounts"];
const REFETCH_MS = 10_000;
const BYTES_IN_GB = 1e9;
const LIMITS = ["open_tasks", "bytes", "hours"] as const;
type Limit = (typeof LIMITS)[number];

export function Accounts() {
  const paging = usePaging();
  const accounts = useQuery({
    queryKey: [...ACCOUNTS, paging.token],
    queryFn: () => expectData(molbox.GET("/admin/accounts", {
      params: { query: paging.token === undefined ? {} : { page_token: paging.token } },
    })),
    refetchInterval: REFETCH_MS,
    placeholderData: keepPreviousData,
  });
  const [asked, ask] = useState<Asked>();
  const close = () => ask(undefined);
  return <section className="panel stack" aria-labelledby="accounts">
    <div className="spread">
      <h2 id="accounts">Accounts</h2>
      <button className="main" onClick={() => ask({ what: "new" })}>New account</button>
    </div>
    {accounts.error && <Failure error={accounts.error} again={() => void accounts.refetch()} />}
    {accounts.data && <table>
      <thead><tr>
        <th scope="col">Name</th>
        <th scope="col">State</th>
        <th scope="col" className="wide">Made</th>
        <th scope="col" className="number wide">Open tasks</th>
        <th scope="col" className="number wide">Held</th>
        <th scope="col" className="number wide">Hours</th>
        <th scope="col"><span className="unseen">What can be done</span></th>
      </tr></thead>
      <tbody>{accounts.data.items.map((of) => <tr key={of.account}>
        <th scope="row">{of.account}{of.role === "admin" && <span className="quiet"> · admin</span>}</th>
        <td>{stateOf(of)}</td>
        <td className="wide"><When at={of.created_at} /></td>
        <td className="number wide">{ofLimit(of.usage.open_tasks, number)}</td>
        <td className="number wide">{ofLimit(of.usage.bytes, bytes)}</td>
        <td className="number wide">{of.usage.hours && ofLimit(of.usage.hours, hours)}</td>
        <td className="actions"><div className="end">
          {of.disabled_at === undefined && <button aria-label={`Invite ${of.account}`} onClick={() => ask({ what: "invite", of })}>Invite…</button>}
          <button aria-label={`Change ${of.account}`} onClick={() => ask({ what: "change", of })}>Change…</button>
          {of.disabled_at === undefined
            ? <button className="danger" aria-label={`Disable ${of.account}`} onClick={() => ask({ what: "disable", of })}>Disable…</button>
            : <Enable of={of} />}
        </div></td>
      </tr>)}</tbody>
    </table>}
    <Pages paging={paging} next={accounts.data?.next_page} />
    {asked?.what === "new" && <NewAccount onClose={close} />}
    {asked?.what === "invite" && <Invite of={asked.of} onClose={close} />}
    {asked?.what === "change" && <ChangeAccount of={asked.of} onClose={close} />}
    {asked?.what === "disable" && <Disable of={asked.of} onClose={close} />}
  </section>;
}

function stateOf({ disabled_at, has_password, invited_until }: Account): ReactNode {
  if (disabled_at !== undefined) return <span className="bad">disabled</span>;
  if (invited_until !== undefined) return <>invited, link ends <When at={invited_until} /></>;
  return has_password ? "can sign in" : <span className="quiet">keys alone</span>;
}

function ofLimit({ used, most }: { used: number; most?: number }, words: (value: number) => string): string {
  return most === undefined ? words(used) : `${words(used)} of ${words(most)}`;
}

function useChange(account: string, onSuccess: () => void) {
  const queries = useQueryClient();
  return useOnce({
    mutationFn: (body: Change) => expectData(molbox.POST("/admin/account/{account}", { params: { path: { account } }, body })),
    onSuccess: async () => {
      // What one that is disabled has queued and running is cancelled.
      await Promise.all([ACCOUNTS, QUEUE].map((queryKey) => queries.invalidateQueries({ queryKey })));
      onSuccess();
    },
  });
}

const invite = (account: string) =>
  expectData(molbox.POST("/admin/account/{account}/invitation", { params: { path: { account } } }));

function NewAccount({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const create = useOnce({
    mutationFn: async (body: Schemas["AccountRequest"]) => {
      await expectData(molbox.POST("/admin/account", { body }));
      return invite(body.account);
    },
    onSettled: () => queries.invalidateQueries({ queryKey: ACCOUNTS }),
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const data = new FormData(event.currentTarget);
    if (!create.isPending) create.mutate({ account: textOf(data, "account"), role: roleIn(data) });
  };
  if (create.data) return <Link made={create.data} onClose={onClose} />;
  const wrong = inWords(create.error, "account");
  return <Dialog title="New account" onClose={onClose}>
    <form className="stack" onSubmit={submit}>
      <Input label="Name" name="account" longest={200} aria-required autoFocus refused={wrong}
        help="It is what its owner signs in with." />
      <Role value="user" />
      {create.error && wrong === undefined && <Failure error={create.error} />}
      <div className="end">
        <button type="button" onClick={onClose}>Close</button>
        <button className="main" aria-busy={create.isPending}>Make and invite</button>
      </div>
    </form>
  </Dialog>;
}

function Role({ value }: { value: string }) {
  const id = useId();
  return <div className="field">
    <label htmlFor={id}>Role</label>
    <select id={id} name="role" defaultValue={value}>
      <option value="user">user</option>
      <option value="admin">admin: manages accounts and the queue</option>
    </select>
  </div>;
}

function roleIn(data: FormData): "admin" | "user" {
  return textOf(data, "role") === "admin" ? "admin" : "user";
}

/** What the service found wrong with a field of the request. */
function at(error: Error | null, field: string): string | undefined {
  return error instanceof Refused ? error.detail.find(({ loc }) => loc.at(-1) === field)?.msg : undefined;
}

/** The same of a name: what the rules of one are, not how they are written down. */
function inWords(error: Error | null, field: string): string | undefined {
  const type = error instanceof Refused ? error.detail.find(({ loc }) => loc.at(-1) === field)?.type : undefined;
  if (type === "string_too_short" || type === "missing") return "Give a name.";
  if (type === "string_pattern_mismatch") {
    return "A name has no / ? # or %, begins with neither a dot nor a blank, and ends with no blank.";
  }
  return at(error, field);
}

function Invite({ of: { account, has_password }, onClose }: { of: Account; onClose: () => void }) {
  const queries = useQueryClient();
  const make = useOnce({
    mutationFn: () => invite(account),
    onSuccess: () => queries.invalidateQueries({ queryKey: ACCOUNTS }),
  });
  if (make.data) return <Link made={make.data} onClose={onClose} />;
  return <Dialog title={`Invite ${account}?`} onClose={onClose}>
    <p>{has_password
      ? "A link is made with which another password can be chosen. The present one works until then; choosing another ends all sessions."
      : "A link is made with which a password can be chosen, once."}</p>
    {make.error && <Failure error={make.error} />}
    <div className="end">
      <button onClick={onClose}>Close</button>
      <button className="main" aria-busy={make.isPending} onClick={() => { if (!make.isPending) make.mutate(); }}>Make the link</button>
    </div>
  </Dialog>;
}

function Link({ made, onClose }: { made: Schemas["Invitation"]; onClose: () => void }) {
  return <Dialog title={`Invitation for ${made.account}`}>
    <p>Send it to its owner on a way that others do not read. It is shown this once, works once, and ends <When at={made.expires_at} />.</p>
    <div className="row">
      <code className="box">{made.link}</code>
      <Copy text={made.link} label="Copy the link" />
    </div>
    <div className="end"><button className="main" onClick={onClose}>I have it</button></div>
  </Dialog>;
}

function ChangeAccount({ of, onClose }: { of: Account; onClose: () => void }) {
  const change = useChange(of.account, onClose);
  const { wrong, isRight, look } = useWrong(notLimits);
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const data = new FormData(event.currentTarget);
    if (!isRight(data) || change.isPending) return;
    const [tasks, gigabytes, hours] = [limitIn(data, "open_tasks"), limitIn(data, "bytes"), limitIn(data, "hours")];
    change.mutate({
      role: roleIn(data),
      limits: {
        ...(tasks !== undefined && { open_tasks: tasks }),
        ...(gigabytes !== undefined && { bytes: Math.round(gigabytes * BYTES_IN_GB) }),
        ...(hours !== undefined && { hours }),
      },
    });
  };
  const refused = Object.fromEntries(LIMITS.map((limit) => [limit, at(change.error, limit)]));
  const isPlaced = LIMITS.some((limit) => refused[limit] !== undefined);
  const { open_tasks: tasks, bytes: held, hours } = of.limits;
  return <Dialog title={`Change ${of.account}`} onClose={onClose}>
    <form className="stack" onSubmit={submit} onInput={look} noValidate>
      <Role value={of.role} />
      <Input label="Tasks that may wait or run" name="open_tasks" inputMode="numeric" defaultValue={tasks} placeholder="the service's"
        help="0 is any number; nothing is what the service allows everybody." wrong={wrong.open_tasks} refused={refused.open_tasks} />
      <Input label="Space of files and results, GB" name="bytes" inputMode="decimal" placeholder="the service's"
        defaultValue={held === undefined ? undefined : held / BYTES_IN_GB} wrong={wrong.bytes} refused={refused.bytes} />
      <Input label={`Hours that its tasks may run, in ${of.usage.hours?.days ?? 30} days`} name="hours" inputMode="numeric" placeholder="the service's"
        defaultValue={hours} wrong={wrong.hours} refused={refused.hours} />
      {change.error && !isPlaced && <Failure error={change.error} />}
      <div className="end">
        <button type="button" onClick={onClose}>Close</button>
        <button className="main" aria-busy={change.isPending}>Change it</button>
      </div>
    </form>
  </Dialog>;
}

/** What is no limit in the form of an account. */
function notLimits(data: FormData): Partial<Record<Limit, string>> {
  const whole = "Whole numbers only; nothing for the service's limit, 0 for none.";
  return {
    ...(!isWhole(limitIn(data, "open_tasks")) && { open_tasks: whole }),
    ...(!isWhole(limitIn(data, "hours")) && { hours: whole }),
    ...(Number.isNaN(limitIn(data, "bytes")) && { bytes: "A number; nothing for the service's limit, 0 for none." }),
  };
}

function isWhole(limit: number | undefined): boolean {
  return limit === undefined || Number.isInteger(limit);
}

/** A number of a form; undefined when the field is empty, NaN when it is none. */
function limitIn(data: FormData, name: string): number | undefined {
  const text = textOf(data, name).trim();
  return text === "" ? undefined : (numberOf(text) ?? NaN);
}

function Disable({ of: { account, usage }, onClose }: { of: Account; onClose: () => void }) {
  const change = useChange(account, onClose);
  const open = usage.open_tasks.used;
  return <Dialog title={`Disable ${account}?`} onClose={onClose}>
    <p>Its sessions end, its keys are refused, and what it has queued and running is cancelled
      {open > 0 && <>: {number(open)} {open === 1 ? "task" : "tasks"}</>}. Its files and results stay, and it can be enabled again.</p>
    {change.error && <Failure error={change.error} />}
    <div className="end">
      <button onClick={onClose}>Close</button>
      <button className="danger" aria-busy={change.isPending} onClick={() => { if (!change.isPending) change.mutate({ disabled: true }); }}>
        Disable it
      </button>
    </div>
  </Dialog>;
}

function Enable({ of: { account } }: { of: Account }) {
  const change = useChange(account, () => undefined);
  return <>
    {change.error && <span className="bad">{change.error.message}</span>}
    <button aria-label={`Enable ${account}`} aria-busy={change.isPending}
      onClick={() => { if (!change.isPending) change.mutate({ disabled: false }); }}>Enable</button>
  </>;
}
