//! Where the link of an invitation leads: somebody chooses a password.
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";

import { expectData, molbox, Refused } from "../api/client.ts";
import { Input, textOf } from "../part/input.tsx";
import { useOnce } from "../part/mutation.ts";
import { Failure, Notice } from "../part/notice.tsx";
import { LONGEST, SHORTEST, unlike } from "../part/password.ts";
import { useSignedIn } from "../part/session.ts";
import { When } from "../part/when.tsx";
import { useWrong } from "../part/wrong.ts";
import { address, fragment, goToStart } from "../routes.ts";

export default function Invitation() {
  const [token] = useState(fragment);
  const { wrong, isRight, look } = useWrong((data) => unlike(data, "password"));
  const signedIn = useSignedIn();
  // Before anything is typed. It is looked at once: what becomes of it meanwhile is said when it is accepted.
  const invitation = useQuery({
    queryKey: ["invitation", token],
    queryFn: () => expectData(molbox.POST("/session/invitation/check", { body: { token } })),
    enabled: token !== "",
    staleTime: Infinity,
  });
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
    if (isRight(data) && !accept.isPending) accept.mutate(textOf(data, "password"));
  };
  const noGood = [invitation.error, accept.error].find(isNoGood);
  return <section className="narrow stack">
    <title>Invitation · molbox</title>
    <h1>{invitation.data && !noGood ? "Choose a password" : "Invitation"}</h1>
    {token === "" ? <Notice kind="bad">
      This address lacks its end, after <code>#</code>. Open the link of the invitation as it was given.
    </Notice> : noGood ? <>
      <Failure error={noGood} />
      <p>Whoever has chosen a password already can <a href={address("jobs")}>sign in</a>.</p>
    </> : invitation.error ? <Failure error={invitation.error} again={() => void invitation.refetch()} />
    : !invitation.data ? <p className="quiet">Loading…</p>
    : <form className="panel stack" onSubmit={submit} onInput={look}>
      <p>
        For the account <strong>{invitation.data.account}</strong>. The invitation
        ends <When at={invitation.data.expires_at} />.
      </p>
      {/* What keeps passwords keeps this one under the name. */}
      <input hidden readOnly autoComplete="username" value={invitation.data.account} />
      <Input label="Password" name="password" type="password" autoComplete="new-password" autoFocus longest={LONGEST}
        help={`${SHORTEST} characters or more. Nothing else is asked of it: long is what counts.`} wrong={wrong.first} />
      <Input label="The same again" name="again" type="password" autoComplete="new-password" longest={LONGEST} wrong={wrong.again} />
      {accept.error && <Failure error={accept.error} />}
      <div className="end"><button className="main" aria-busy={accept.isPending}>Set the password and sign in</button></div>
    </form>}
  </section>;
}

/** Whether it is the invitation that was refused, and would be again. */
function isNoGood(error: Error | null): error is Refused {
  return error instanceof Refused && error.detail.some(({ loc }) => loc.at(-1) === "token");
}
