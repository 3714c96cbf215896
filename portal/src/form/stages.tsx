//! Equilibration stages as rows that can be moved, and the production after them.
import type { Schemas, Violation } from "../api/client.ts";
import { fields } from "../api/fields.ts";
import { FieldControl } from "./field.tsx";
import { type Fields, read, type Typed, typedOf, type Wrong } from "./form.ts";
import { PRODUCTION, STAGE } from "./groups.ts";

type Parts = Pick<Schemas["JobCreateParams"], "equilibration" | "production">;

/** `stages` is undefined for those that the service begins with by default; `production` for none. */
export type Plan = { stages?: Typed[]; production?: Typed };

export function readPlan({ stages, production }: Plan): { body: Parts; wrong: Violation[] } {
  const body: Parts = {};
  const wrong: Violation[] = [];
  if (stages) {
    const rows = stages.map((typed, i) => read(fields.EquilibrationStep, typed, ["equilibration", i]));
    body.equilibration = rows.map((row) => row.body);
    wrong.push(...rows.flatMap((row) => row.wrong));
  }
  if (production) {
    const last = read(fields.ProductionParams, production, ["production"]);
    body.production = last.body;
    wrong.push(...last.wrong);
  }
  return { body, wrong };
}

/** The plan of a request; the inverse of `readPlan`. */
export function planOf(request: Schemas["JobSettings"] | Schemas["JobCreateParams"]): Plan {
  const { equilibration, production } = request;
  return {
    ...(equilibration && { stages: equilibration.map((stage) => typedOf(fields.EquilibrationStep, stage)) }),
    ...(production && { production: typedOf(fields.ProductionParams, production) }),
  };
}

/** The paths of the controls. */
export function planKeys({ stages, production }: Plan): string[] {
  return [
    ...(stages ?? []).flatMap((_, i) => STAGE.map((name) => `equilibration.${i}.${name}`)),
    ...(production ? PRODUCTION.map((name) => `production.${name}`) : []),
  ];
}

type Props = {
  plan: Plan;
  onPlan: (plan: Plan) => void;
  wrong: Wrong;
  /** Learns which field of which stage is being filled in. */
  onFocus: (stage: number, name: string) => void;
};

export function Stages({ plan, onPlan, wrong, onFocus }: Props) {
  const { stages, production } = plan;
  const change = (next: Typed[]) => onPlan({ ...plan, stages: next });
  return <fieldset className="panel">
    <legend>Stages</legend>
    <div className="stack">
      {stages === undefined
        ? <>
          <p>Three stages of 0.1 ns, as the service has them by default.</p>
          <details>
            <summary>What they are</summary>
            <p className="small quiet">{fields.JobCreateParams.equilibration.help}</p>
          </details>
          <div><button type="button" onClick={() => change([{}])}>Stages of my own</button></div>
        </>
        : <>
          {stages.length === 0 && <p className="quiet">No equilibration.</p>}
          <ol className="stages plain-list">
            {stages.map((typed, i) => <li key={i}>
              <div className="spread">
                <h2>Equilibration {i + 1}</h2>
                <div className="row">
                  <button type="button" disabled={i === 0} aria-label={`Move stage ${i + 1} up`}
                    onClick={() => change(swapped(stages, i - 1))}>↑</button>
                  <button type="button" disabled={i === stages.length - 1} aria-label={`Move stage ${i + 1} down`}
                    onClick={() => change(swapped(stages, i))}>↓</button>
                  <button type="button" aria-label={`Remove stage ${i + 1}`}
                    onClick={() => change(stages.filter((_, j) => j !== i))}>Remove</button>
                </div>
              </div>
              <Controls names={STAGE} of={fields.EquilibrationStep} typed={typed} wrong={wrong} path={["equilibration", i]}
                onFocus={(name) => onFocus(i, name)}
                onType={(next) => change(stages.map((other, j) => (j === i ? next : other)))} />
            </li>)}
          </ol>
          <div className="row">
            {stages.length < fields.JobCreateParams.equilibration.to
              && <button type="button" onClick={() => change([...stages, {}])}>Add a stage</button>}
            <button type="button" onClick={() => onPlan(production ? { production } : {})}>Use the default stages</button>
          </div>
        </>}
      {production === undefined
        ? <div className="row">
          <span>No production.</span>
          <button type="button" onClick={() => onPlan({ ...plan, production: {} })}>Add the production</button>
        </div>
        : <div className="inset stack">
          <div className="spread">
            <h2>Production</h2>
            <button type="button" onClick={() => onPlan(stages ? { stages } : {})}>Remove the production</button>
          </div>
          <Controls names={PRODUCTION} of={fields.ProductionParams} typed={production} wrong={wrong} path={["production"]}
            onType={(next) => onPlan({ ...plan, production: next })} />
        </div>}
    </div>
  </fieldset>;
}

type ControlsProps = {
  names: readonly string[];
  of: Fields;
  typed: Typed;
  wrong: Wrong;
  path: readonly (string | number)[];
  onType: (typed: Typed) => void;
  onFocus?: (name: string) => void;
};

function Controls({ names, of, typed, wrong, path, onType, onFocus }: ControlsProps) {
  return <div className="fields">{names.map((name) => {
    const field = of[name];
    return field && <FieldControl key={name} name={name} field={field} typed={typed[name]}
      onFocus={() => onFocus?.(name)} wrong={wrong.at(...path, name)} noted={wrong.notedAt(...path, name)} onType={(text) => onType({ ...typed, [name]: text })} />;
  })}</div>;
}

/** With the item at `i` behind the one after it. */
function swapped<T>(items: readonly T[], i: number): T[] {
  return [...items.slice(0, i), ...items.slice(i, i + 2).reverse(), ...items.slice(i + 2)];
}
