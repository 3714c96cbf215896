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
import { SYSTEM } from "../form/groups.ts";
import { keysOf, type Ligand, Ligands, ligandsOf, readLigands } from "../form/ligands.tsx";
import { useFocusOnWrong, useKept, useSubmission } from "../form/submit.tsx";
import { WrongAtTop } from "../form/wrong.tsx";
import { useFiles } from "../part/files.ts";
import { Failure } from "../part/notice.tsx";
import { address, go, type PageProps } from "../routes.ts";

const { SystemBuildRequest } = fields;
const NAMES = SYSTEM.flatMap(({ often, seldom }) => [...often, ...seldom]);

type Draft = { typed: Typed; ligands: Ligand[] };

export default function SystemNew({ search }: PageProps<"system_new">) {
  const from = search.get("from");
  const given = search.get("protein");
  const [draft, keep, forget] = useKept<Draft>(`system_new ${search}`, () => ({
    typed: given === null ? {} : { protein: given }, ligands: [],
  }));
  useRecord(from, draft, keep);
  const queries = useQueryClient();
  const files = useFiles();

  const main = read(SystemBuildRequest, draft.typed);
  const ligands = readLigands(draft.ligands);
  const unread = [...main.wrong, ...ligands.wrong];
  const body: Schemas["SystemBuildRequest"] = { ...main.body, ...ligands.body };
  const check = useCheck("system", unread.length > 0 ? undefined : body, (body, signal) =>
    expectData(molbox.POST("/check/system", { body, signal })));
  const submission = useSubmission(body, (body, key) => expectData(molbox.POST("/submit/system", {
    body, params: { header: { "Idempotency-Key": key } },
  })), (system) => {
    forget();
    queries.setQueryData(["system", system.system_id], system);
    go(address("system", { system_id: system.system_id }));
  });
  const keys = new Set<string>([...NAMES, ...keysOf(draft.ligands)]);
  const wrong = new Wrong(unread.length > 0 ? unread : check.isKnown ? check.violations : submission.violations, keys);
  useFocusOnWrong(submission.error);

  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (unread.length === 0) void submission.submit();
  };
  const choices = {
    protein: files.named("structure", "protein", "topology"),
    force_field: files.named("force_field"),
  };
  return <form className="stack" onSubmit={submit} noValidate>
    <title>New system · molbox</title>
    <div className="spread form-head">
      <h1>New system</h1>
      <button className="main" aria-busy={submission.isBusy} disabled={unread.length > 0}>Build</button>
    </div>
    <p role="status" className="quiet">{submission.waits}</p>
    {submission.error && submission.violations.length === 0
      && <Failure error={submission.error} again={() => void submission.submit()} />}
    <WrongAtTop wrong={wrong} />
    <div className="columns form-columns">
      <div className="stack">
        {SYSTEM.map((group, i) => <FieldGroup key={group.title} group={group} fields={SystemBuildRequest}
          typed={draft.typed} onType={(typed) => keep({ ...draft, typed })} wrong={wrong} choices={choices}>
          {i === 0 && <Ligands rows={draft.ligands} onRows={(rows) => keep({ ...draft, ligands: rows })}
            wrong={wrong} files={files.named("ligand")} />}
        </FieldGroup>)}
      </div>
      <div className="stack aside">
        <section className="panel stack">
          <h2>Files</h2>
          <p className="small quiet">
            A protein is a registered file or a public entry, such as <code>1L2Y</code>, where the service has a mirror.
          </p>
          <p><a href={address("files")}>Upload a file</a></p>
        </section>
        <EstimatePanel check={check} />
        <CopyAs operation={SYSTEM_SUBMIT} body={body} />
      </div>
    </div>
  </form>;
}

/** Fills an untouched form with what an earlier system was asked for. */
function useRecord(system_id: string | null, draft: Draft, keep: (draft: Draft) => void): void {
  const isUntouched = Object.keys(draft.typed).length === 0 && draft.ligands.length === 0;
  const { data } = useQuery({
    queryKey: ["system", system_id],
    queryFn: () => systemView(system_id ?? ""),
    enabled: system_id !== null && isUntouched,
  });
  useEffect(() => {
    if (data && isUntouched) {
      keep({ typed: typedOf(SystemBuildRequest, { ...data.request, ligands: undefined }), ligands: ligandsOf(data.request) });
    }
    // Once, when the record has come.
  }, [data]);
}
