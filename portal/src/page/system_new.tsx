//! A new system: what shall be in the box.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useEffect } from "react";

import { expectData, molbox, type Schemas } from "../api/client.ts";
import { fields } from "../api/fields.ts";
import { systemView } from "../api/task.ts";
import { SYSTEM_SUBMIT } from "../form/code.ts";
import { EstimatePanel, useCheck } from "../form/check.tsx";
import { CopyAs } from "../form/copy_as.tsx";
import { read, type Typed, typedOf, Wrong } from "../form/form.ts";
import { FieldGroup } from "../form/group.tsx";
import { BROUGHT, type Group, SYSTEM } from "../form/groups.ts";
import { keysOf, type Ligand, Ligands, ligandsOf, readLigands } from "../form/ligands.tsx";
import { SystemPreview } from "../form/system_preview.tsx";
import { focusOnWrong, useFocusOnWrong, useKept, useSubmission } from "../form/submit.tsx";
import { useTold } from "../form/untouched.ts";
import { Waits } from "../form/waits.tsx";
import { WrongAtTop } from "../form/wrong.tsx";
import { useFiles } from "../part/files.ts";
import { Failure, Notice } from "../part/notice.tsx";
import { useHasEntries } from "../part/usage.ts";
import { address, go, type PageProps } from "../routes.ts";

const { SystemBuildRequest } = fields;

/** `isBrought` when another program has built the system. */
type Draft = { typed: Typed; ligands: Ligand[]; isBrought?: boolean };

export default function SystemNew({ search }: PageProps<"system_new">) {
  const from = search.get("from");
  const protein = search.get("protein");
  const built = search.get("built");
  const chain_id = search.get("chain_id");
  const [draft, keep, forget] = useKept<Draft>(`system_new ${search}`, () => ({
    typed: {
      ...(protein === null ? {} : { protein }), ...(built === null ? {} : { built }), ...(chain_id === null ? {} : { chain_id }),
    },
    ligands: [],
    isBrought: built !== null,
  }));
  const lost = useRecord(from, draft, keep);
  const queries = useQueryClient();
  const files = useFiles();
  const hasEntries = useHasEntries();

  const isBrought = draft.isBrought ?? false;
  const groups: readonly Group<keyof typeof SystemBuildRequest>[] = isBrought ? BROUGHT : SYSTEM;
  const names = groups.flatMap(({ often, seldom }) => [...often, ...seldom]);
  const main = read(Object.fromEntries(names.map((name) => [name, SystemBuildRequest[name]])), draft.typed);
  const ligands = readLigands(isBrought ? [] : draft.ligands);
  const unread = [...main.wrong, ...ligands.wrong];
  // Without its files it would be a box of water.
  const isMissing = isBrought && main.body["built"] === undefined;
  const body: Schemas["SystemBuildRequest"] = { ...main.body, ...ligands.body };
  const check = useCheck("system", isMissing ? undefined : body, unread, (body, signal) =>
    expectData(molbox.POST("/check/system", { body, signal })));
  const submission = useSubmission(body, (body, key) => expectData(molbox.POST("/submit/system", {
    body, params: { header: { "Idempotency-Key": key } },
  })), (system) => {
    forget();
    queries.setQueryData(["system", system.system_id], system);
    go(address("system", { system_id: system.system_id }));
  });
  const keys = new Set<string>([...names, ...keysOf(draft.ligands)]);
  const { told, showAll } = useTold(check.violations, ([, field, i]) => (
    field === "ligands" && typeof i === "number" && draft.ligands[i]?.ligands.trim() === ""));
  const wrong = new Wrong(check.violations.length > 0 ? told : submission.violations, keys, check.warnings);
  useFocusOnWrong(submission.error);

  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isMissing) return;
    if (check.violations.length === 0) return void submission.submit();
    showAll();
    focusOnWrong();
    if (unread.length === 0) check.again();
  };
  const choices = {
    protein: files.named("structure", "protein", "topology"),
    force_field: files.named("force_field"),
    built: files.named("system", "structure", "protein", "topology"),
  };
  return <form className="stack" onSubmit={submit} noValidate>
    <title>New system · molbox</title>
    <div className="spread form-head">
      <h1>New system</h1>
      <button className="main" aria-busy={submission.isBusy} disabled={isMissing}>{isBrought ? "Bring" : "Build"}</button>
    </div>
    <Waits submission={submission} />
    {submission.failure
      && <Failure error={submission.failure} again={() => void submission.submit()} />}
    {lost && <Notice kind="waiting"><p>The system to begin with cannot be read: {lost.message}</p></Notice>}
    <WrongAtTop wrong={wrong} />
    <div className="columns form-columns">
      <div className="stack">
        <div className="row" role="group" aria-label="How it comes about">
          {([[false, "Build from a structure"], [true, "Bring from another program"]] as const).map(([is, text]) =>
            <button key={text} type="button" aria-pressed={isBrought === is} onClick={() => keep({ ...draft, isBrought: is })}>{text}</button>)}
        </div>
        {isBrought && <p className="quiet">
          Amber, GROMACS, CHARMM, NAMD or OpenMM has built it: its files are taken as they are, with their water, ions and
          force field, and checked before anything is simulated.
        </p>}
        {groups.map((group, i) => <FieldGroup key={group.title} group={group} fields={SystemBuildRequest}
          typed={draft.typed} onType={(typed) => keep({ ...draft, typed })} wrong={wrong} choices={choices}>
          {i === 0 && !isBrought && <Ligands rows={draft.ligands} onRows={(rows) => keep({ ...draft, ligands: rows })}
            wrong={wrong} files={files.named("ligand")} />}
        </FieldGroup>)}
      </div>
      <div className="stack aside">
        {!isBrought && <SystemPreview typed={draft.typed} onType={(typed) => keep({ ...draft, typed })}
          ligands={draft.ligands} onLigands={(rows) => keep({ ...draft, ligands: rows })} estimate={check.preview?.estimate} />}
        <EstimatePanel check={{ ...check, violations: told }} wrong={wrong} {...(isMissing ? { until: "files are named under built" } : {})} />
        <section className="panel stack">
          <h2>Files</h2>
          <p className="small quiet">{isBrought
            ? "They have to be registered first: all that the program has written, one by one or as a zip."
            : hasEntries ? <>A protein is a registered file or a public entry, such as <code>1L2Y</code>.</>
              : `A protein is a registered file${hasEntries === false ? "; this service has no mirror of public entries" : ""}.`}
          </p>
          <p><a href={address("files")}>Upload a file</a></p>
        </section>
        <CopyAs operation={SYSTEM_SUBMIT} body={body} />
      </div>
    </div>
  </form>;
}

/** Fills an untouched form with what an earlier system was asked for. */
function useRecord(system_id: string | null, draft: Draft, keep: (draft: Draft) => void): Error | null {
  const isUntouched = Object.keys(draft.typed).length === 0 && draft.ligands.length === 0;
  const { data, error } = useQuery({
    queryKey: ["system", system_id],
    queryFn: () => systemView(system_id ?? ""),
    enabled: system_id !== null && isUntouched,
  });
  useEffect(() => {
    if (data && isUntouched) {
      keep({ typed: typedOf(SystemBuildRequest, { ...data.request, ligands: undefined }), ligands: ligandsOf(data.request), isBrought: data.request.built !== undefined });
    }
    // Once, when the record has come.
  }, [data]);
  return error;
}
