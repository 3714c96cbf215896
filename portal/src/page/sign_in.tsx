//! What everybody sees who has not signed in, at whichever address.
import { SignInForm } from "../part/sign_in.tsx";
import { useSignedIn } from "../part/session.ts";

export function SignIn() {
  const signedIn = useSignedIn();
  return <section className="narrow stack">
    <title>Sign in · molbox</title>
    <h1>Sign in</h1>
    <div className="panel"><SignInForm done={signedIn} /></div>
    <p className="small quiet">
      No account, or the password is lost? Whoever runs this service makes a link that lets you choose one.
    </p>
  </section>;
}
