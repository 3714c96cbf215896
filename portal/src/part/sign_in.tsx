//! The form that signs in, on a page of its own and over others.
import { useMutation, useQuery } from "@tanstack/react-query";
import type { FormEvent } from "react";

import { expectData, molbox } from "../api/client.ts";
import { isReadable } from "../routes.ts";
import { Input, textOf } from "./input.tsx";
import { Failure, Notice } from "./notice.tsx";
import type { Session } from "./session.ts";

/** `account` is who had signed in before. */
export function SignInForm({ account = "", done }: { account?: string; done: (session: Session) => void }) {
  const ways = useQuery({
    queryKey: ["sign-in"],
    queryFn: () => expectData(molbox.GET("/info/sign-in")),
    staleTime: Infinity,
  });
  const signIn = useMutation({
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
  return <form className="stack" onSubmit={submit}>
    {isReadable() && <Notice kind="waiting">
      This page comes over a connection that others can read: the password as well. Ask for an address with https.
    </Notice>}
    <Input label="Name" name="account" defaultValue={account} autoComplete="username" autoFocus={account === ""}
      autoCapitalize="none" spellCheck={false} maxLength={200} required />
    <Input label="Password" name="password" type="password" autoComplete="current-password"
      autoFocus={account !== ""} maxLength={200} required />
    {signIn.error && <Failure error={signIn.error} />}
    <div className="end"><button className="main" aria-busy={signIn.isPending}>Sign in</button></div>
  </form>;
}
