//! An input with its label, what helps to fill it in, and what is wrong with it.
import { type ComponentProps, type ReactNode, useId } from "react";

type Props = ComponentProps<"input"> & { label: string; help?: ReactNode; wrong?: string | undefined };

export function Input({ label, help, wrong, autoFocus = false, ...input }: Props) {
  const id = useId();
  const said = [help !== undefined && `${id}-help`, wrong && `${id}-wrong`].filter(Boolean).join(" ");
  return <div className="field">
    <label htmlFor={id}>{label}</label>
    <input id={id} autoFocus={autoFocus} data-first={autoFocus || undefined} aria-describedby={said || undefined} aria-invalid={wrong ? true : undefined} {...input} />
    {help !== undefined && <small id={`${id}-help`}>{help}</small>}
    {wrong && <small id={`${id}-wrong`} className="wrong">{wrong}</small>}
  </div>;
}

/** What a form's `data` has in a text field. */
export function textOf(data: FormData, name: string): string {
  const value = data.get(name);
  return typeof value === "string" ? value : "";
}
