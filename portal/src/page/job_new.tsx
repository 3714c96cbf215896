//! A new job: how a system is simulated, and how often.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, Suspense, useEffect, useRef, useState } from "react";

import { expectData, molbox, type Schemas } from "../api/client.ts";
import { fields } from "../api/fields.ts";
import { later } from "../api/later.ts";
import { hasEnded, jobView, systemView } from "../api/task.ts";
import { type Batch, batchOf, replica, wrongOfLast } from "../form/batch.ts";
import { JOB_SUBMIT } from "../form/code.ts";
import { EstimatePanel, useCheck, useSettled } from "../form/check.tsx";
import { CopyAs } from "../form/copy_as.tsx";
import { type Choice, FieldControl } from "../form/field.tsx";
import { numberOf, read, type Typed, typedOf, violation, Wrong } from "../form/form.ts";
import { FieldGroup } from "../form/group.tsx";
import { JOB, MASKS } from "../form/groups.ts";
import { PRESETS } from "../form/presets.ts";
import { type Plan, planKeys, planOf, readPlan, Stages } from "../form/stages.tsx";
import { focusOnWrong, useFocusOnWrong, useKept, useSubmission } from "../form/submit.tsx";
import { Waits } from "../form/waits.tsx";
import { WrongAtTop } from "../form/wrong.tsx";
import { Failure, Notice } from "../part/notice.tsx";
import { nameOf } from "../part/system.ts";
import { address, go, type PageProps } from "../routes.ts";
import type { MaskField } from "../viewer/picker.tsx";

const Picker = later(() => import("../viewer/picker.tsx"));

type Request = Schemas["JobCreateParams"];
type Draft = { typed: Typed; plan: Plan; replicas: string };

const { JobCreateParams } = fields;
const NAMES = ["box_id", "replicas", ...JOB.flatMap(({ often, seldom }) => [...often, ...seldom])];
const MOST_REPLICAS = 100;
const SUGGESTED = 200;

export default function JobNew({ search }: PageProps<"job_new">) {
  const from = search.get("from");
  const [draft, keep, forget] = useKept<Draft>(`job_new ${search}`, () => ({
    typed: search.has("box_id") ? { box_id: search.get("box_id") ?? "" } : {},
    plan: { production: {} },
    replicas: "1",
  }));
  const lost = useRecord(from, draft, keep);
  const queries = useQueryClient();
  const boxes = useBoxes();

  const main = read({ ...JobCreateParams }, draft.typed);
  const plan = readPlan(draft.plan);
  const replicas = replicasOf(draft.replicas);
  const body: Request = { ...main.body, ...plan.body };
  const unread = [...main.wrong, ...plan.wrong, ...(replicas === undefined
    ? [violation(["replicas"], `a whole number from 1 to ${MOST_REPLICAS}`)] : wrongOfLast(body, replicas))];
  const [begun, begin, forgetBatch] = useKept<Batch | undefined>(`job_new ${search} batch`, () => undefined);
  const batch = useRef(begun);
  const check = useCheck("job", body, unread, (body, signal) =>
    expectData(molbox.POST("/check/job", { body, signal })));
  const unbuilt = useUnbuilt(draft.typed["box_id"]?.trim() ?? "");
  const note = (next: Batch) => {
    batch.current = next;
    begin(next);
  };
  const submission = useSubmission({ body, replicas: replicas ?? 1 }, async ({ body, replicas }) => {
    let only: Schemas["JobRecord"] | undefined;
    note(batchOf(body, replicas, batch.current));
    for (let now = batch.current; now && now.sent < replicas; note(now = { ...now, sent: now.sent + 1 })) {
      // Each has a key of its own; what has been submitted before a failure is not submitted twice.
      const job = await expectData(molbox.POST("/submit/job", {
        body: replicas === 1 ? body : replica(body, now.sent),
        params: { header: { "Idempotency-Key": `${now.key}-${now.sent}` } },
      }));
      queries.setQueryData(["job", job.job_id], job);
      if (replicas === 1) only = job;
    }
    // Also when nobody waits for it any more: what is kept would be taken for the beginning of the next.
    batch.current = undefined;
    forgetBatch();
    forget();
    return only;
  }, (only) => go(only ? address("job", { job_id: only.job_id }) : address("jobs")));
  const keys = new Set([...NAMES, ...planKeys(draft.plan)]);
  const wrong = new Wrong(check.violations.length > 0 ? check.violations : submission.violations, keys, check.warnings);
  useFocusOnWrong(submission.error);

  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (unbuilt) return;
    if (check.violations.length === 0) return void submission.submit();
    focusOnWrong();
    if (unread.length === 0) check.again();
  };
  const [isPicking, pick] = useState(false);
  const [focused, focus] = useState<number>();
  const box = boxes?.find(({ value }) => value === draft.typed["box_id"])?.value;
  // As the service says, which may know of another since.
  const taken = (draft.typed["box_id"] ?? "").trim() === "" ? check.preview?.parameters.box_id : undefined;
  const newest = taken === undefined ? undefined : boxes?.find(({ value }) => value === taken) ?? { value: taken, label: taken };
  const type = (typed: Typed) => keep({ ...draft, typed });
  const choose = (job: Request) => keep({
    ...draft,
    typed: { ...typedOf({ ...JobCreateParams }, job), ...(draft.typed["box_id"] ? { box_id: draft.typed["box_id"] } : {}) },
    plan: planOf(job),
  });
  return <form className="stack" onSubmit={submit} noValidate>
    <title>New job · molbox</title>
    <div className="spread form-head">
      <h1>New job</h1>
      <button className="main" aria-busy={submission.isBusy} disabled={unbuilt !== undefined}>
        {(replicas ?? 1) > 1 ? `Simulate ${replicas} times` : "Simulate"}
      </button>
    </div>
    <Waits submission={submission}>
      {submission.isBusy && (replicas ?? 1) > 1 && `${begun?.sent ?? 0} of ${replicas} submitted`}
    </Waits>
    {!submission.isBusy && begun && begun.sent > 0 && <Notice kind="waiting"><p>
      {begun.sent} of {begun.of} are submitted, and are among the <a href={address("jobs")}>jobs</a>. {
        batchOf(body, replicas ?? 1, begun).key === begun.key
          ? "What is left of them is submitted next." : "What is submitted next is another batch."}
    </p></Notice>}
    {unbuilt && <Notice kind="waiting"><p>
      <a href={address("system", { system_id: unbuilt.system_id })}>{nameOf(unbuilt)}</a> is still being built. Once it is, it can be simulated.
    </p></Notice>}
    {submission.failure
      && <Failure error={submission.failure} again={() => void submission.submit()} />}
    {lost && <Notice kind="waiting"><p>The job to begin with cannot be read: {lost.message}</p></Notice>}
    <WrongAtTop wrong={wrong} />
    <div className="columns form-columns">
      <div className="stack">
        <fieldset className="panel">
          <legend>What is simulated</legend>
          {boxes?.length === 0 && <p>There is no built system yet. <a href={address("system_new")}>Build one</a></p>}
          <div className="fields">
            <FieldControl name="box_id" label="System" field={JobCreateParams.box_id} typed={draft.typed["box_id"]}
              wrong={wrong.at("box_id")} noted={wrong.notedAt("box_id")} choices={boxes ?? []} onType={(text) => type({ ...draft.typed, box_id: text })}>
              {newest && <small role="status">It would be the newest: {newest.label === newest.value ? "" : `${newest.label}, `}<code>{newest.value}</code></small>}
            </FieldControl>
            <FieldControl name="replicas" label="Replicas" typed={draft.replicas} wrong={wrong.at("replicas")}
              field={{ kind: "integer", help: "So many jobs of one batch, each with velocities of its own." }}
              onType={(text) => keep({ ...draft, replicas: text })} />
          </div>
        </fieldset>
        <fieldset className="panel">
          <legend>Begin with</legend>
          <div className="presets">{PRESETS.map(({ name, about, job }) => <button type="button" key={name} onClick={() => choose(job)}>
            <strong>{name}</strong><span className="quiet">{about}</span>
          </button>)}</div>
        </fieldset>
        <Stages plan={draft.plan} onPlan={(next) => keep({ ...draft, plan: next })} wrong={wrong}
          onFocus={(stage, name) => MASKS.stage.some((known) => known === name) && focus(stage)} />
        {JOB.map((group) => <FieldGroup key={group.title} group={group} fields={JobCreateParams}
          typed={draft.typed} onType={type} wrong={wrong} />)}
      </div>
      <div className="stack aside">
        <EstimatePanel check={check} wrong={wrong} times={replicas ?? 1} />
        {box !== undefined && draft.plan.stages && <section className="panel stack">
          <h2>Restraints</h2>
          <div><button type="button" aria-pressed={isPicking} onClick={() => pick(!isPicking)}>Pick atoms</button></div>
          {isPicking && <Suspense fallback={<p className="quiet">Loading…</p>}>
            <Picker system_id={box} field={maskField(focused, draft.plan, (plan) => keep({ ...draft, plan }))} />
          </Suspense>}
        </section>}
        <CopyAs operation={JOB_SUBMIT} body={body} />
      </div>
    </div>
  </form>;
}

/** The mask of the stage in which it was gone to last. */
function maskField(i: number | undefined, plan: Plan, onPlan: (plan: Plan) => void): MaskField | undefined {
  const { stages } = plan;
  const typed = i === undefined ? undefined : stages?.[i];
  if (i === undefined || !stages || !typed) return undefined;
  return {
    label: `restraint_mask of stage ${i + 1}`,
    text: typed["restraint_mask"] ?? "",
    isList: false,
    onText: (restraint_mask) => onPlan({
      ...plan, stages: stages.map((other, j) => (j === i ? { ...other, restraint_mask } : other)),
    }),
  };
}

function replicasOf(text: string): number | undefined {
  const value = numberOf(text.trim() || "1");
  const isRight = value !== undefined && Number.isInteger(value) && value >= 1 && value <= MOST_REPLICAS;
  return isRight ? value : undefined;
}

/** The system while it is still being built; the job is checked anew once it is. */
function useUnbuilt(system_id: string): Schemas["SystemRecord"] | undefined {
  const queries = useQueryClient();
  const wanted = useSettled(system_id);
  const { data: system } = useQuery({
    queryKey: ["system", wanted],
    queryFn: () => systemView(wanted),
    enabled: wanted !== "",
  });
  const unbuilt = system && !hasEnded(system) ? system : undefined;
  useEffect(() => {
    if (unbuilt) return () => void queries.invalidateQueries({ queryKey: ["check", "job"] });
  }, [unbuilt?.system_id]);
  return unbuilt;
}

/** The newest systems that can be simulated. */
function useBoxes(): Exclude<Choice, string>[] | undefined {
  const { data } = useQuery({
    queryKey: ["systems", "suggested"],
    queryFn: () => expectData(molbox.GET("/info/systems", {
      params: { query: { status: "succeeded", limit: SUGGESTED } },
    })),
  });
  return data?.items.map((system) => ({ value: system.system_id, label: nameOf(system) }));
}

/** Fills the form with what an earlier job was asked for, once. */
function useRecord(job_id: string | null, draft: Draft, keep: (draft: Draft) => void): Error | null {
  const isUntouched = Object.keys(draft.typed).length === 0;
  const { data, error } = useQuery({
    queryKey: ["job", job_id],
    queryFn: () => jobView(job_id ?? ""),
    enabled: job_id !== null && isUntouched,
  });
  useEffect(() => {
    if (!data || !isUntouched) return;
    keep({
      typed: typedOf({ ...JobCreateParams }, { ...data.request, box_id: data.box_id }),
      plan: planOf(data.request),
      replicas: "1",
    });
  }, [data]);
  return error;
}
