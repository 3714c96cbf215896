//! A group of fields, the seldom ones folded until one of them is used or wrong; with the group, if it has no others.
import type { ReactNode } from "react";

import { type Choice, FieldControl } from "./field.tsx";
import { Fold } from "./fold.tsx";
import type { Fields, Path, Typed, Wrong } from "./form.ts";
import type { Group } from "./groups.ts";

type Props = {
  group: Group<string>;
  fields: Fields;
  typed: Typed;
  onType: (typed: Typed) => void;
  wrong: Wrong;
  path?: Path;
  /** What may be chosen besides the document's values, by field. */
  choices?: Readonly<Record<string, readonly Choice[]>>;
  /** Learns which field is being filled in. */
  onFocus?: (name: string) => void;
  /** Whether what is folded is used for a reason of the page's own. */
  isOpen?: boolean;
  children?: ReactNode;
};

export function FieldGroup({ group, fields, typed, onType, wrong, path = [], choices = {}, onFocus, isOpen = false, children }: Props) {
  const controls = (names: readonly string[]) => names.map((name) => {
    const field = fields[name];
    return field && <FieldControl key={name} name={name} field={field} typed={typed[name]}
      onFocus={() => onFocus?.(name)} onType={(text) => onType({ ...typed, [name]: text })} wrong={wrong.at(...path, name)} noted={wrong.notedAt(...path, name)}
      {...(choices[name] ? { choices: choices[name] } : {})} />;
  });
  const isUsed = isOpen || group.seldom.some((name) => (typed[name] ?? "") !== "" || (wrong.at(...path, name) ?? wrong.notedAt(...path, name)) !== undefined);
  if (group.often.length === 0) {
    return <Fold summary={group.title} isUsed={isUsed} className="panel">
      <fieldset className="stack" aria-label={group.title}>
        <div className="fields">{controls(group.seldom)}</div>
        {children}
      </fieldset>
    </Fold>;
  }
  return <fieldset className="panel">
    <legend>{group.title}</legend>
    <div className="stack">
      <div className="fields">{controls(group.often)}</div>
      {children}
      {group.seldom.length > 0 && <Fold summary="More" isUsed={isUsed}>
        <div className="fields">{controls(group.seldom)}</div>
      </Fold>}
    </div>
  </fieldset>;
}
