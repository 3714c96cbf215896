//! The account of who has signed in: ways in, and what it uses.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import type { FormEvent } from "react";

import { expectData, molbox, Refused, type Schemas } from "../api/client.ts";
import { Input, textOf } from "../part/input.tsx";
import { Keys } from "../part/keys.tsx";
import { useOnce } from "../part/mutation.ts";
import { Failure, Notice } from "../part/notice.tsx";
import { bytes, hours, number } from "../part/number.ts";
import { LONGEST, SHORTEST, unlike } from "../part/password.ts";
import { SESSIONS, Sessions } from "../part/sessions.tsx";
import { USAGE } from "../part/usage.ts";
import { Used } from "../part/used.tsx";
import { useWrong } from "../part/wrong.ts";

export default function Account() {
  return <div className="stack">
    <title>Account · molbox</title>
    <h1>Account</h1>
    <Keys />
    <Sessions />
    <div className="columns">
      <Password />
      <Usage />
    </div>
  </div>;
}

type Change = Schemas["PasswordChange"];
type Wrong = Partial<Record<keyof Change, string>>;

function Password() {
  const queries = useQueryClient();
  const { wrong, isRight, look } = useWrong((data) => unlike(data, "new_password"));
  const change = useOnce({
    mutationFn: ({ body }: { body: Change; form: HTMLFormElement }) => expectData(molbox.POST("/session/password", { body })),
    onSuccess: (_, { form }) => {
      form.reset();
      return queries.invalidateQueries({ queryKey: SESSIONS });
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    const data = new FormData(form);
    const body: Change = { password: textOf(data, "password"), new_password: textOf(data, "new_password") };
    change.reset();
    if (isRight(data) && !change.isPending) change.mutate({ body, form });
  };
  const refused = wrongIn(change.error);
  return <section className="panel stack" aria-labelledby="password">
    <h2 id="password">Password</h2>
    <form className="stack" onSubmit={submit} onInput={look}>
      <Input label="Present password" name="password" type="password" autoComplete="current-password" longest={LONGEST}
        refused={refused?.password} />
      <Input label="New password" name="new_password" type="password" autoComplete="new-password" longest={LONGEST}
        help={`${SHORTEST} characters or more. All other sessions end with the old one.`}
        wrong={wrong.first} refused={refused?.new_password} />
      <Input label="New password again" name="again" type="password" autoComplete="new-password" longest={LONGEST} wrong={wrong.again} />
      {change.error && !refused && <Failure error={change.error} />}
      {change.isSuccess && <Notice><p>The password is changed, and every other session has ended.</p></Notice>}
      <div className="end"><button className="main" aria-busy={change.isPending}>Change the password</button></div>
    </form>
  </section>;
}

/** What the service found wrong with one of the two passwords; undefined when it was something else. */
function wrongIn(error: Error | null): Wrong | undefined {
  if (!(error instanceof Refused)) return undefined;
  const at = (field: keyof Change) => error.detail.find(({ loc }) => loc[1] === field)?.msg;
  const [password, chosen] = [at("password"), at("new_password")];
  if (password === undefined && chosen === undefined) return undefined;
  return { ...(password !== undefined && { password }), ...(chosen !== undefined && { new_password: chosen }) };
}

function Usage() {
  const usage = useQuery(USAGE);
  return <section className="panel stack" aria-labelledby="usage">
    <h2 id="usage">Usage</h2>
    {usage.error && <Failure error={usage.error} again={() => void usage.refetch()} />}
    {usage.data && <>
      <Used label="Tasks that wait or run" {...usage.data.open_tasks} words={number} />
      <Used label="Files" {...usage.data.files} words={number} />
      <Used label="Space of files and results" {...usage.data.bytes} words={bytes} />
      {usage.data.hours && <Used label={`Hours that tasks ran, in ${usage.data.hours.days} days`} {...usage.data.hours} words={hours} />}
    </>}
  </section>;
}
