//! A system: how its build goes, and what is in the box.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Suspense, useState } from "react";

import { baseUrl, expectData, molbox, type Schemas } from "../api/client.ts";
import { fields } from "../api/fields.ts";
import { later } from "../api/later.ts";
import { hasEnded, systemView } from "../api/task.ts";
import { soluteMask, structureOf } from "../api/trajectory.ts";
import { useOnce } from "../part/mutation.ts";
import { FileStructure, structureFile } from "../part/structure.tsx";
import { Cancellation, Deletion } from "../part/deletion.tsx";
import { Unreadable } from "../part/notice.tsx";
import { number } from "../part/number.ts";
import { Settings } from "../part/settings.tsx";
import { Status } from "../part/status.tsx";
import { nameOf } from "../part/system.ts";
import { Citations, FailurePanel, HoldNotice, ProgressPanel, QueueNotice, Warnings } from "../part/task.tsx";
import { When } from "../part/when.tsx";
import { address, go, type PageProps } from "../routes.ts";

type System = Schemas["SystemRecord"];

const Viewer = later(() => import("../viewer/viewer.tsx"));

export default function SystemPage({ given: { system_id } }: PageProps<"system">) {
  const { data: system, error, refetch } = useQuery({
    queryKey: ["system", system_id],
    queryFn: () => systemView(system_id),
  });
  const [sought, seek] = useState<readonly Schemas["ResidueName"][]>();
  if (error && !system) return <Unreadable error={error} what="system" again={() => void refetch()} />;
  if (!system) return <p className="quiet">Loading…</p>;
  return <div className="stack">
    <title>{`${nameOf(system)} · molbox`}</title>
    <Head system={system} />
    {system.held ? <HoldNotice held={system.held} /> : system.queue && <QueueNotice queue={system.queue} />}
    {system.progress && !hasEnded(system) && <ProgressPanel progress={system.progress} />}
    {system.error && <FailurePanel failure={system.error} />}
    <div className="columns">
      <div className="stack">
        {system.status === "succeeded" && system.summary
          && <Structure system={system} summary={system.summary} residues={sought} />}
        {system.error?.residues && <Source protein={system.request.protein} residues={sought ?? system.error.residues} />}
        {system.summary && <Summary summary={system.summary} />}
        <Warnings warnings={system.warnings}
          {...(system.status === "succeeded" || system.error?.residues ? { onResidues: seek } : {})} />
        <Citations citations={system.citations} />
      </div>
      <section className="panel stack">
        <h2>What was asked for</h2>
        <Settings fields={fields.SystemBuildRequest} values={system.request} without={["box_name"]}>
          <dt>submitted</dt>
          <dd><When at={system.created_at} isExact /></dd>
          {system.finished_at !== undefined && <><dt>ended</dt><dd><When at={system.finished_at} isExact /></dd></>}
          {system.expires_at !== undefined && <><dt>will be deleted</dt><dd className="bad"><When at={system.expires_at} isExact />: download what you need</dd></>}
        </Settings>
      </section>
    </div>
  </div>;
}

type StructureProps = {
  system: System;
  summary: Schemas["SystemSummary"];
  residues: readonly Schemas["ResidueName"][] | undefined;
};

/** What has been built: at first without water and ions, which hide what people look for. */
function Structure({ system, summary, residues }: StructureProps) {
  const { system_id } = system;
  const [isWhole, showWhole] = useState(false);
  const solute = soluteMask(summary);
  const read = async () => ({ text: await structureOf(system_id, isWhole ? undefined : solute), format: "mmcif" as const });
  return <div className="stack">
    <Suspense fallback={<div className="stage"><p className="quiet">Loading…</p></div>}>
      <Viewer id={`${system_id} ${isWhole}`} read={read} hasMasks withWater={isWhole} residues={residues} name={nameOf(system)} />
    </Suspense>
    {solute !== undefined && <label className="row">
      <input type="checkbox" checked={isWhole} onChange={(event) => showWhole(event.target.checked)} />
      With water and ions
    </label>}
  </div>;
}

/** The structure that could not be built, where it could not. */
function Source({ protein, residues }: { protein: string | undefined; residues: readonly Schemas["ResidueName"][] }) {
  const { data: file } = useQuery({
    queryKey: ["structure", protein],
    queryFn: () => structureFile(protein ?? ""),
    enabled: protein !== undefined,
  });
  return file ? <FileStructure file={file} residues={residues} /> : null;
}

function Head({ system }: { system: System }) {
  const queries = useQueryClient();
  const [asks, ask] = useState<"cancel" | "delete">();
  const path = { system_id: system.system_id };
  const cancel = useOnce({
    mutationFn: () => expectData(molbox.POST("/cancel/system/{system_id}", { params: { path } })),
    onSuccess: (record) => {
      queries.setQueryData(["system", system.system_id], record);
      ask(undefined);
    },
    onError: () => queries.invalidateQueries({ queryKey: ["system", system.system_id] }),
  });
  return <>
    <div className="spread">
      <div>
        <h1>{nameOf(system)}</h1>
        <span className="mono quiet">{system.system_id}</span>
      </div>
      <div className="row">
        <span role="status"><Status status={system.status} isCancelling={system.cancelling} /></span>
        {!hasEnded(system) && !system.cancelling
          && <button className="danger" onClick={() => (cancel.reset(), ask("cancel"))}>Cancel…</button>}
        {system.status === "succeeded" && <a className="button main" href={address("job_new", { box_id: system.system_id })}>Simulate</a>}
        {!hasEnded(system) && <a className="button" href={address("job_new", { box_id: system.system_id })}>Prepare a job</a>}
        <a className="button" href={address("system_new", { from: system.system_id })}>Change and build again</a>
        {hasEnded(system) && <a className="button" href={`${baseUrl}/retrieve/system/${system.system_id}`} download>Download</a>}
        {hasEnded(system) && <button className="danger" onClick={() => ask("delete")}>Delete…</button>}
      </div>
    </div>
    {asks === "cancel" && !hasEnded(system) && <Cancellation what={nameOf(system)} cancel={cancel} onClose={() => ask(undefined)}
      rest="Nothing is built: what has been prepared so far is lost. What was asked for stays, and can be changed and built again." />}
    {asks === "delete" && <Delete system={system} onClose={() => ask(undefined)} />}
  </>;
}

function Delete({ system, onClose }: { system: System; onClose: () => void }) {
  const queries = useQueryClient();
  const remove = useOnce({
    mutationFn: () => expectData(molbox.DELETE("/info/system/{system_id}", {
      params: { path: { system_id: system.system_id } },
    })),
    onSuccess: () => {
      queries.removeQueries({ queryKey: ["system", system.system_id] });
      void queries.invalidateQueries({ queryKey: ["systems"] });
      go(address("systems"));
    },
  });
  return <Deletion what={nameOf(system)} loss="Its record and its files are gone for good. A system that jobs were made of stays until they are deleted." remove={remove} onClose={onClose} />;
}

function Summary({ summary }: { summary: Schemas["SystemSummary"] }) {
  const { molecules, variants, check, box_vectors: vectors } = summary;
  return <section className="panel stack">
    <h2>What is in the box</h2>
    <dl>
      <dt>atoms</dt><dd>{number(summary.atoms)}</dd>
      <dt>residues</dt><dd>{number(summary.residues)} in {number(summary.chains)} chains</dd>
      <dt>molecules</dt><dd>{countsOf(molecules)}</dd>
      <dt>net charge</dt><dd>{number(summary.net_charge, 3)} e</dd>
      <dt>volume</dt><dd>{number(summary.volume)} nm³, as built {number(summary.density, 3)} g/mL</dd>
      <dt>box</dt>
      <dd>{vectors.map((vector, i) => <div key={i}>{vector.map((length) => number(length)).join(", ")} nm</div>)}</dd>
      <dt>force field</dt><dd>{summary.force_field}, {summary.water_type}</dd>
      {Object.keys(variants ?? {}).length > 0 && <><dt>variants</dt><dd>{countsOf(variants ?? {})}</dd></>}
      <dt>seed</dt><dd className="mono">{summary.seed}</dd>
    </dl>
    {check && <details>
      <summary>How it was checked</summary>
      <dl>
        {check.longest_bond && <>
          <dt>longest bond</dt>
          <dd>{number(check.longest_bond.length)} nm, {number(check.longest_bond.ratio)} times its length in the force field: {check.longest_bond.atoms.join(" to ")}</dd>
        </>}
        {check.closest_contact && <>
          <dt>closest contact</dt>
          <dd>{number(check.closest_contact.distance)} nm: {check.closest_contact.atoms.join(" to ")}</dd>
        </>}
        {check.largest_force && <>
          <dt>largest force</dt>
          <dd>{number(check.largest_force.force)} kJ/mol/nm on {check.largest_force.atom}</dd>
        </>}
        <dt>residues</dt><dd>{countsOf(check.residues)}</dd>
      </dl>
    </details>}
  </section>;
}

function countsOf(counts: Readonly<Record<string, unknown>>): string {
  return Object.entries(counts)
    .filter((entry): entry is [string, number] => typeof entry[1] === "number" && entry[1] > 0)
    .map(([name, count]) => `${number(count)} ${name.replaceAll("_", " ")}`)
    .join(", ");
}
