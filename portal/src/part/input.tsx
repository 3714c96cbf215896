//! An input with its label, what helps to fill it in, and what is wrong with it.
import { type ComponentProps, type FormEvent, type ReactNode, useId, useState } from "react";

/**
 * `wrong` is of what stands in it now, `refused` what the service said of what was sent: it is gone as soon as something
 * else is typed. `longest` is how many characters are taken; more can be typed, and pasted, so that nothing is cut
 * without a word.
 */
type Props = ComponentProps<"input"> & {
  label: string; help?: ReactNode; wrong?: string | undefined; refused?: string | undefined; longest?: number;
};

export function Input({ label, help, wrong: typedWrong, refused, longest = Infinity, autoFocus = false, ...input }: Props) {
  const id = useId();
  const [own, say] = useState("");
  const [isOther, other] = useState(false);
  // What is sent next may be refused in the same words.
  if (isOther && refused === undefined) other(false);
  const look = ({ currentTarget: it }: FormEvent<HTMLInputElement>) => {
    other(refused !== undefined);
    const length = [...it.value].length;
    it.setCustomValidity(length > longest ? `${length} characters are too many; at most ${longest} are taken.` : "");
    say(it.validity.customError ? it.validationMessage : "");
  };
  // In the language of the page, and at the field; browsers have their own words in a bubble.
  const invalid = (event: FormEvent<HTMLInputElement>) => {
    event.preventDefault();
    const { currentTarget: it } = event;
    say(it.validity.customError ? it.validationMessage : "Fill this in.");
    if (it.form?.querySelector("input:invalid") === it) it.focus();
  };
  const wrong = own || typedWrong || (isOther ? undefined : refused);
  const said = [help !== undefined && `${id}-help`, wrong && `${id}-wrong`].filter(Boolean).join(" ");
  return <div className="field">
    <label htmlFor={id}>{label}</label>
    <input id={id} autoFocus={autoFocus} data-first={autoFocus || undefined} aria-describedby={said || undefined} aria-invalid={wrong ? true : undefined}
      onInput={look} onInvalid={invalid} {...input} />
    {help !== undefined && <small id={`${id}-help`}>{help}</small>}
    {wrong && <small id={`${id}-wrong`} className="wrong">{wrong}</small>}
  </div>;
}

/** What a form's `data` has in a text field. */
export function textOf(data: FormData, name: string): string {
  const value = data.get(name);
  return typeof value === "string" ? value : "";
}
