//! The form that signs in, on a page of its own and over others.
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useEffect } from "react";

import { baseUrl, expectData, molbox, Refused } from "../api/client.ts";
import { fragment, here, isReadable } from "../routes.ts";
import { Input, textOf } from "./input.tsx";
import { useOnce } from "./mutation.ts";
import { Failure, Notice } from "./notice.tsx";
import { duration } from "./number.ts";
import type { Session } from "./session.ts";

/** Why the identity provider signed nobody in, by what the service says behind `#`. */
const WHY: ReadonlyMap<string, string> = new Map([
  ["too-many", "Too many tries to sign in came from this address. Wait a minute."],
  ["not-begun", "Signing in took too long, or was not begun in this browser. Try again."],
  ["refused", "You were not signed in: it was cancelled, or refused there."],
  ["provider", "Signing in does not work at present. Whoever runs this service finds the reason in its log."],
  ["unknown", "You have no account here. Ask whoever runs this service."],
  ["disabled", "Your account is disabled. Ask whoever runs this service."],
]);

/** `account` is who had signed in before, on a page that stays as it is. */
export function SignInForm({ account = "", done }: { account?: string; done: (session: Session) => void }) {
  const ways = useQuery({
    queryKey: ["sign-in"],
    queryFn: () => expectData(molbox.GET("/info/sign-in")),
    staleTime: Infinity,
  });
  const signIn = useOnce({
    mutationFn: (body: { account: string; password: string }) => expectData(molbox.POST("/session", { body })),
    onSuccess: done,
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const data = new FormData(event.currentTarget);
    if (!signIn.isPending) signIn.mutate({ account: textOf(data, "account"), password: textOf(data, "password") });
  };
  if (ways.data && !ways.data.password) {
    return <Notice kind="bad">Nobody can sign in to this service with a password.</Notice>;
  }
  const why = account === "" ? WHY.get(fragment().replace(/^sign-in=/, "")) : undefined;
  return <form className="stack" onSubmit={submit}>
    {why !== undefined && <Notice kind="bad">{why}</Notice>}
    {isReadable() && <Notice kind="waiting">
      This page comes over a connection that others can read: the password as well. Ask for an address with https.
    </Notice>}
    <Input label="Name" name="account" defaultValue={account} autoComplete="username" autoFocus={account === ""}
      autoCapitalize="none" spellCheck={false} longest={200} required />
    <Input label="Password" name="password" type="password" autoComplete="current-password"
      autoFocus={account !== ""} longest={200} required />
    {signIn.error && <Failure error={signIn.error} />}
    {signIn.error instanceof Refused && signIn.error.retryAfter !== null
      && <p className="small quiet">It can be tried again in {duration(signIn.error.retryAfter)}.</p>}
    {signIn.error instanceof Refused && signIn.error.status === 401
      && <p className="small quiet">If both are right, the account may have been disabled: ask whoever runs this service.</p>}
    <div className="end"><button className="main" aria-busy={signIn.isPending}>Sign in</button></div>
    {ways.data?.oidc_label !== undefined
      && <Elsewhere label={ways.data.oidc_label} isInPlace={account === ""} done={done} />}
  </form>;
}

/** To the identity provider; in a window of its own where what was typed on this page is to stay. */
function Elsewhere(
  { label, isInPlace, done }: { label: string; isInPlace: boolean; done: (session: Session) => void },
) {
  useEffect(() => {
    if (isInPlace) return;
    const look = async () => {
      const { data } = await molbox.GET("/session").catch(() => ({ data: undefined }));
      if (data) done(data);
    };
    addEventListener("focus", look);
    return () => removeEventListener("focus", look);
  });
  const search = new URLSearchParams({ back: isInPlace ? here() : "" });
  return <>
    <a className="button" href={`${baseUrl}/session/oidc?${search}`}
      {...(isInPlace ? {} : { target: "_blank", rel: "noopener" })}>{label}</a>
    {!isInPlace && <p className="small quiet">This opens a new tab; come back to this one afterwards.</p>}
  </>;
}
