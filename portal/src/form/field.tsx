//! A field of the document as a control: its name, unit and default, what it means, what is wrong with it.
import { type ReactNode, useId } from "react";

import type { Field } from "../api/fields.ts";
import { sentence } from "../api/words.ts";
import { inTypedLines, linesOf, pointedAt } from "./form.ts";

/** A value that is suggested; of an identifier, with the name of the thing. */
export type Choice = string | { value: string; label: string };

type Props = {
  name: string;
  field: Field;
  typed: string | undefined;
  onType: (text: string) => void;
  wrong: string | undefined;
  /** What should be known of what was typed although it can be done. */
  noted?: string | undefined;
  /** What may be chosen besides the document's values, for example files of the account. */
  choices?: readonly Choice[];
  /** In the place of the field's name, where several fields have the same. */
  label?: string;
  onFocus?: (() => void) | undefined;
  /** What stands below the control, for example a way to pick atoms. */
  children?: ReactNode;
};

export function FieldControl({ name, field, typed = "", onType, wrong, noted, choices, label = name, onFocus, children }: Props) {
  const id = useId();
  const initial = field.initial === undefined ? "" : String(field.initial);
  const common = {
    id,
    value: typed,
    onFocus,
    "aria-describedby": `${id}-help`,
    "aria-invalid": wrong === undefined ? undefined : true,
  };
  const suggestions: Choice[] = [...(field.values ?? []), ...(choices ?? [])];
  const isChoice = field.values !== undefined && !field.isOpen && choices === undefined;
  const isList = field.kind === "texts";
  const pointed = pointedAt(typed, isList, wrong);
  return <div className={field.kind === "texts" && choices ? "field whole" : "field"}>
    <label htmlFor={id}>{label}</label>
    <div className="with-unit">
      {field.kind === "boolean"
        ? <select {...common} onChange={(event) => onType(event.target.value)}>
            <option value="">{initial === "true" ? "yes" : "no"} (default)</option>
            <option value="true">yes</option>
            <option value="false">no</option>
          </select>
        : isChoice
          ? <select {...common} onChange={(event) => onType(event.target.value)}>
              <option value="">{initial === "" ? "default" : `${initial} (default)`}</option>
              {field.values?.map((value) => <option key={value}>{value}</option>)}
            </select>
          : field.kind === "texts"
            ? <textarea {...common} rows={Math.max(2, typed.split("\n").length)} spellCheck={false} autoComplete="off"
                onChange={(event) => onType(event.target.value)} />
          : <input {...common} placeholder={initial} spellCheck={false} autoComplete="off"
              inputMode={field.kind === "number" || field.kind === "integer" ? "decimal" : undefined}
              list={suggestions.length > 0 ? `${id}-list` : undefined}
              onChange={(event) => onType(event.target.value)} />}
      {field.unit !== undefined && <span className="quiet">{field.unit}</span>}
    </div>
    {field.kind === "texts" && choices && choices.length > 0
      && <AddTo name={label} typed={typed} choices={choices} onType={onType} />}
    {!isChoice && field.kind !== "texts" && suggestions.length > 0 && <datalist id={`${id}-list`}>
      {suggestions.map((choice) => typeof choice === "string"
        ? <option key={choice} value={choice} />
        : <option key={choice.value} {...choice} />)}
    </datalist>}
    {children}
    <small id={`${id}-help`}>
      {wrong !== undefined && <strong className="wrong">{sentence(isList ? inTypedLines(typed, wrong) : wrong)} </strong>}
      {wrong === undefined && noted !== undefined && <strong className="noted">{sentence(noted)} </strong>}
      {pointed && <code className="pointed">{pointed.before}<u>{pointed.at}</u>{pointed.after}</code>}
      <Words text={field.help} />
    </small>
  </div>;
}

type AddProps = { name: string; typed: string; choices: readonly Choice[]; onType: (text: string) => void };

/** What can be chosen for a list, which gets a line of each. */
function AddTo({ name, typed, choices, onType }: AddProps) {
  const lines = linesOf(typed).map(({ line }) => line);
  const left = choices.map((choice) => (typeof choice === "string" ? { value: choice, label: choice } : choice))
    .filter(({ value }) => !lines.includes(value));
  return <select aria-label={`Add to ${name}`} value="" disabled={left.length === 0}
    onChange={(event) => onType([...lines, event.target.value].join("\n"))}>
    <option value="">{left.length === 0 ? "All that there are" : "Add a file…"}</option>
    {left.map(({ value, label }) => <option key={value} value={value}>{label}</option>)}
  </select>;
}

/** Text of the document, whose code stands in backticks. */
export function Words({ text }: { text: string }) {
  return text.split("`").map((part, i) => (i % 2 === 1 ? <code key={i}>{part}</code> : part));
}
