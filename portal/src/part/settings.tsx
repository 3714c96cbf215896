//! The fields of a record with their units, below what else there is to say of it.
import type { ReactNode } from "react";

import type { Field } from "../api/fields.ts";
import { number } from "./number.ts";

type Props = {
  fields: Record<string, Field>;
  values: Readonly<Record<string, unknown>>;
  /** Fields that are shown elsewhere. */
  without?: readonly string[];
  /** Terms with their descriptions. */
  children?: ReactNode;
};

export function Settings({ fields, values, without = [], children }: Props) {
  return <dl>{children}{Object.entries(values).map(([name, value]) => {
    if (value === undefined || value === null || without.includes(name)) return null;
    return <div className="pair" key={name}>
      <dt>{name}</dt>
      <dd>{name === "seed" ? String(value) : wordsOf(value)} <span className="quiet">{fields[name]?.unit}</span></dd>
    </div>;
  })}</dl>;
}

function wordsOf(value: unknown): string {
  if (typeof value === "number") return number(value, 8);
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value) && value.every((item) => typeof item === "string")) return value.join(", ");
  return typeof value === "string" ? value : JSON.stringify(value);
}
