//! Where the link of an invitation leads: somebody chooses a password.
import { type FormEvent, useState } from "react";

import { expectData, molbox, Refused } from "../api/client.ts";
import { Input, textOf } from "../part/input.tsx";
import { useOnce } from "../part/mutation.ts";
import { Failure, Notice } from "../part/notice.tsx";
import { LONGEST, SHORTEST, unlike } from "../part/password.ts";
import { useSignedIn } from "../part/session.ts";
import { address, fragment, goToStart } from "../routes.ts";

export default function Invitation() {
  const [token] = useState(fragment);
  const [wrong, setWrong] = useState<ReturnType<typeof unlike>>();
  const signedIn = useSignedIn();
  const accept = useOnce({
    mutationFn: (password: string) => expectData(molbox.POST("/session/invitation", { body: { token, password } })),
    onSuccess: (session) => {
      signedIn(session);
      goToStart();
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const data = new FormData(event.currentTarget);
    const password = textOf(data, "password");
    const found = unlike(password, textOf(data, "again"));
    setWrong(found);
    if (!found && !accept.isPending) accept.mutate(password);
  };
  const isUsed = accept.error instanceof Refused && accept.error.detail.some(({ loc }) => loc.at(-1) === "token");
  return <section className="narrow stack">
    <title>Invitation · molbox</title>
    <h1>{isUsed ? "Invitation" : "Choose a password"}</h1>
    {token === "" ? <Notice kind="bad">
      This address lacks its end, after <code>#</code>. Open the link of the invitation as it was given.
    </Notice> : isUsed && accept.error ? <>
      <Failure error={accept.error} />
      <p>Whoever has chosen a password already can <a href={address("jobs")}>sign in</a>.</p>
    </> : <form className="panel stack" onSubmit={submit}>
      <Input label="Password" name="password" type="password" autoComplete="new-password" autoFocus longest={LONGEST}
        help={`${SHORTEST} characters or more. Nothing else is asked of it: long is what counts.`} wrong={wrong?.first} />
      <Input label="The same again" name="again" type="password" autoComplete="new-password" longest={LONGEST} wrong={wrong?.again} />
      {accept.error && <Failure error={accept.error} />}
      <div className="end"><button className="main" aria-busy={accept.isPending}>Set the password and sign in</button></div>
    </form>}
  </section>;
}
