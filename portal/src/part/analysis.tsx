//! The analyses of a trajectory: what can be measured, and what was.
import { useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, Suspense, useMemo, useState } from "react";

import { expectData, molbox, type Schemas } from "../api/client.ts";
import { type Field, fields } from "../api/fields.ts";
import { later } from "../api/later.ts";
import { hasEnded } from "../api/task.ts";
import { Heatmap } from "../chart/heatmap.tsx";
import { save, saveCsv } from "../chart/save.ts";
import { SeriesChart } from "../chart/series.tsx";
import { States } from "../chart/states.tsx";
import { fileNameOf, Subject } from "../chart/subject.ts";
import type { Plot } from "../chart/svg.ts";
import { matrixOf, plotsOf, selectionsOf, statesOf, type TimeUnit, timeUnitOf } from "../chart/table.ts";
import { ANALYSIS_SUBMIT } from "../form/code.ts";
import { EstimatePanel, useCheck } from "../form/check.tsx";
import { CopyAs } from "../form/copy_as.tsx";
import { type Fields, masksIn, read, type Typed, Wrong } from "../form/form.ts";
import { FieldGroup } from "../form/group.tsx";
import { ANALYSIS, MASKS } from "../form/groups.ts";
import { focusOnWrong, useFocusOnWrong, useKept, useSubmission } from "../form/submit.tsx";
import { useTold } from "../form/untouched.ts";
import { Waits } from "../form/waits.tsx";
import { WrongAtTop } from "../form/wrong.tsx";
import { Cancellation, Deletion } from "./deletion.tsx";
import { nameOf } from "./job.tsx";
import { useOnce } from "./mutation.ts";
import { Failure, Notice } from "./notice.tsx";
import { columnOf, LANGUAGE, number, significant, toFemtosecond } from "./number.ts";
import { Status } from "./status.tsx";
import { FailurePanel, HoldNotice, ProgressPanel, QueueNotice, Warnings } from "./task.tsx";
import { When } from "./when.tsx";
import { address, go } from "../routes.ts";
import type { MaskField } from "../viewer/picker.tsx";

const Picker = later(() => import("../viewer/picker.tsx"));
const Measured = later(() => import("../viewer/measured.tsx"));

type Analysis = Schemas["AnalysisRecord"];
type Table = Schemas["AnalysisTable"];
type Request = Schemas["AnalysisRequest"];

const LISTED = 1000;
const MOST_ROWS = 500;
const MOST_COMPARED = 8;
/** What most people ask of a protein; a trajectory need not have it. */
const SUGGESTED: Typed = { rmsd_masks: "@CA", rmsf_masks: "@CA" };
const NAMES = ANALYSIS.flatMap(({ often, seldom }) => [...often, ...seldom]);

/** RMSD masks are lists of lists; here a line is a list, with blanks between its masks. */
const FORM: Fields = {
  ...fields.AnalysisRequest,
  rmsd_masks: { ...fields.AnalysisRequest.rmsd_masks, kind: "texts" } satisfies Field,
};

/** A trajectory that is analysed, and what goes with it. */
export type Analysed = {
  name: string;
  /** Which it is, in a request. */
  given: Pick<Request, "job_id" | "allow_unfinished" | "topology" | "trajectory">;
  /** The job that it is of; frames and systems can be shown. */
  job?: Schemas["JobRecord"];
};

/** What can be measured in a trajectory, and what was. */
export function Analyses({ subject }: { subject: Analysed }) {
  const [chosen, choose] = useState<string>();
  const all = useAnalyses();
  const analyses = all.data?.filter((analysis) => isOf(analysis, subject));
  const shown = analyses?.find(({ analysis_id }) => analysis_id === chosen) ?? analyses?.[0];
  return <>
    {all.error && <Failure error={all.error} again={() => void all.refetch()} />}
    <NewAnalysis subject={subject} isFirst={analyses?.length === 0} onSubmitted={choose} />
    {analyses && analyses.length > 1 && <label className="row on-screen">
      Analysis
      <select className="short" value={shown?.analysis_id} onChange={(event) => choose(event.target.value)}>
        {analyses.map((analysis) => <option key={analysis.analysis_id} value={analysis.analysis_id}>
          {analysis.status}, {new Intl.DateTimeFormat(LANGUAGE, { dateStyle: "medium", timeStyle: "medium" }).format(new Date(analysis.created_at))}
        </option>)}
      </select>
    </label>}
    {shown && <Subject value={subject.name}><Shown analysis={shown} subject={subject} /></Subject>}
  </>;
}

function isOf({ job_id, request }: Analysis, { given }: Analysed): boolean {
  return given.trajectory === undefined ? job_id === given.job_id : request.trajectory === given.trajectory;
}

/** The newest analyses of the account. */
function useAnalyses() {
  return useQuery({
    queryKey: ["analyses"],
    queryFn: async () => (await expectData(molbox.GET("/info/analyses", { params: { query: { limit: LISTED } } }))).items,
  });
}

type NewProps = { subject: Analysed; isFirst: boolean; onSubmitted: (analysis_id: string) => void };

function NewAnalysis({ subject: { job, given }, isFirst, onSubmitted }: NewProps) {
  const queries = useQueryClient();
  const [typed, keep] = useKept<Typed>("analysis", () => SUGGESTED);
  const { body: filled, wrong: unread } = read(FORM, typed);
  const { rmsd_masks: rmsd, ...rest } = filled;
  const body: Request = {
    ...rest,
    ...(Array.isArray(rmsd) ? { rmsd_masks: rmsd.map(masksIn) } : {}),
    ...given,
  };
  const check = useCheck("analysis", body, unread, (body, signal) =>
    expectData(molbox.POST("/check/analysis", { body, signal })));
  const submission = useSubmission(body, (body, key) => expectData(molbox.POST("/submit/analysis", {
    body, params: { header: { "Idempotency-Key": key } },
  })), (analysis) => {
    queries.setQueryData<Analysis[]>(["analyses"], (before) => [analysis, ...(before ?? [])]);
    onSubmitted(analysis.analysis_id);
  });
  const { told, showAll } = useTold(check.violations, ([, name = ""]) => {
    const suggested = SUGGESTED[String(name)];
    return suggested !== undefined && typed[String(name)] === suggested;
  });
  const wrong = new Wrong(check.violations.length > 0 ? told : submission.violations, new Set<string>(NAMES), check.warnings);
  useFocusOnWrong(submission.error);
  const [isPicking, pick] = useState(false);
  const [focused, focus] = useState<string>();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (check.violations.length === 0) return void submission.submit();
    showAll();
    focusOnWrong();
    if (unread.length === 0) check.again();
  };
  const kinds = ANALYSIS.filter(({ title }) => title !== "Frames");
  const frames = ANALYSIS.filter(({ title }) => title === "Frames");
  return <details className="panel on-screen" open={isFirst || undefined}>
    <summary>New analysis</summary>
    <form className="stack" onSubmit={submit} noValidate>
      <p className="small quiet">
        Atoms are selected by masks in the Amber syntax, for example <code>@CA</code> or <code>:1-20@N,CA,C</code>; one
        measurement a line.{given.allow_unfinished && " The job still runs: what it has written so far is analysed."}
      </p>
      {job && <div><button type="button" aria-pressed={isPicking} onClick={() => pick(!isPicking)}>Pick atoms</button></div>}
      {job && isPicking && <Suspense fallback={<p className="quiet">Loading…</p>}>
        <Picker system_id={job.box_id} field={maskField(focused, typed, keep)} />
      </Suspense>}
      <WrongAtTop wrong={wrong} />
      {submission.failure
        && <Failure error={submission.failure} again={() => void submission.submit()} />}
      <div className="kinds">
        {[...kinds, ...frames].map((group) => <FieldGroup key={group.title} group={group} fields={FORM}
          typed={typed} onType={keep} wrong={wrong} onFocus={focus} />)}
      </div>
      <Waits submission={submission} />
      <div className="end"><button className="main" aria-busy={submission.isBusy}>Analyse</button></div>
      <EstimatePanel check={{ ...check, violations: told }} wrong={wrong} />
    </form>
    <CopyAs operation={ANALYSIS_SUBMIT} body={body} />
  </details>;
}

/** The field of masks that was gone to last. */
function maskField(name: string | undefined, typed: Typed, onType: (typed: Typed) => void): MaskField | undefined {
  const label = MASKS.analysis.find((known) => known === name);
  return label && {
    label, text: typed[label] ?? "", isList: true, onText: (text) => onType({ ...typed, [label]: text }),
  };
}

type ShownProps = { analysis: Analysis; subject: Analysed };

function Shown({ analysis, subject }: ShownProps) {
  const queries = useQueryClient();
  const path = { analysis_id: analysis.analysis_id };
  const changed = () => queries.invalidateQueries({ queryKey: ["analyses"] });
  const cancel = useOnce({
    mutationFn: () => expectData(molbox.POST("/cancel/analysis/{analysis_id}", { params: { path } })),
    onSuccess: () => ask(undefined),
    onSettled: changed,
  });
  const zip = useOnce({ mutationFn: () => zipOf(analysis.analysis_id, subject.name) });
  const [asks, ask] = useState<"cancel" | "delete">();
  return <>
    <div className="spread">
      <span className="row">
        <span role="status"><Status status={analysis.status} isCancelling={analysis.cancelling} /></span>
        <span className="quiet"><When at={analysis.created_at} /></span>
        <span className="mono quiet">{analysis.analysis_id}</span>
      </span>
      <span className="row">
        {!hasEnded(analysis) && !analysis.cancelling && <button className="danger" onClick={() => (cancel.reset(), ask("cancel"))}>Cancel…</button>}
        {analysis.status === "succeeded"
          && <button aria-busy={zip.isPending} onClick={() => zip.mutate()}>All as a zip</button>}
        {hasEnded(analysis) && <button className="danger" onClick={() => ask("delete")}>Delete…</button>}
      </span>
    </div>
    {zip.error && <Failure error={zip.error} />}
    {asks === "cancel" && !hasEnded(analysis) && <Cancellation what="this analysis" cancel={cancel} onClose={() => ask(undefined)}
      rest="It measures nothing more, and has no result. The trajectory stays, and the same can be asked again." />}
    {asks === "delete" && <Delete analysis={analysis} onClose={() => ask(undefined)} />}
    {analysis.held ? <HoldNotice held={analysis.held} /> : analysis.queue && <QueueNotice queue={analysis.queue} />}
    {analysis.progress && !hasEnded(analysis) && <ProgressPanel progress={analysis.progress} />}
    {analysis.error && <FailurePanel failure={analysis.error} />}
    <Warnings warnings={analysis.warnings} />
    {analysis.status === "succeeded" && <Tables analysis={analysis} subject={subject} />}
  </>;
}

function Delete({ analysis: { analysis_id }, onClose }: { analysis: Analysis; onClose: () => void }) {
  const queries = useQueryClient();
  const remove = useOnce({
    mutationFn: () => expectData(molbox.DELETE("/info/analysis/{analysis_id}", { params: { path: { analysis_id } } })),
    onSuccess: async () => {
      onClose();
      await queries.invalidateQueries({ queryKey: ["analyses"] });
    },
  });
  return <Deletion what="this analysis" loss="Its tables and plots are gone for good. The trajectory stays." remove={remove} onClose={onClose} />;
}

function Tables({ analysis, subject: { name, job } }: ShownProps) {
  const [isCompared, compare] = useState(false);
  const data = useQuery(dataQuery(analysis.analysis_id));
  const { others, areMore } = useOthers(job, isCompared);
  if (data.error) return <Failure error={data.error} again={() => void data.refetch()} />;
  if (!data.data) return <p className="quiet">Loading…</p>;
  const { frames_analyzed: analysed, frames_total: total, tables } = data.data;
  return <>
    <div className="spread">
      <p className="quiet">{number(analysed)} of {number(total)} frames</p>
      {job?.batch_name !== undefined && <label className="row on-screen">
        <input type="checkbox" checked={isCompared} onChange={(event) => compare(event.target.checked)} />
        Compare with the batch
      </label>}
    </div>
    {isCompared && others.length === 0
      && <Notice><p>No other job of the batch has an analysis yet.</p></Notice>}
    {isCompared && areMore
      && <p className="small quiet">The batch has more jobs; the newest {MOST_COMPARED} are compared.</p>}
    <div className="tables">{tables.map((table) => <TablePanel key={table.name} table={table} tables={tables} analysis={analysis} job={job}
      own={name} others={isCompared ? others : NO_OTHERS} />)}</div>
  </>;
}

/** The data of an analysis never changes. */
function dataQuery(id: string) {
  return {
    queryKey: ["analysis data", id],
    queryFn: () => dataOf(id),
    staleTime: Infinity,
  };
}

async function dataOf(id: string): Promise<Schemas["AnalysisData"]> {
  const data = await expectData(molbox.GET("/retrieve/analysis/{job_id}", { params: { path: { job_id: id } } }));
  if (typeof data === "string") throw new Error("the service answered in another form");
  return data;
}

type Other = { name: string; tables: readonly Table[] };
const NO_OTHERS: readonly Other[] = [];

/** The newest analyses of the other jobs of a batch, and whether it has jobs that are left out. */
function useOthers(job: Schemas["JobRecord"] | undefined, isWanted: boolean): { others: Other[]; areMore: boolean } {
  const name = job?.batch_name ?? "";
  const batch = useQuery({
    queryKey: ["jobs", "batch", name],
    queryFn: () => expectData(molbox.GET("/info/jobs", { params: { query: { name, limit: MOST_COMPARED } } })),
    enabled: isWanted && name !== "",
  });
  const analyses = useAnalyses();
  const compared = (batch.data?.items ?? []).flatMap((other) => {
    const analysis = analyses.data?.find(({ job_id, status }) => job_id === other.job_id && status === "succeeded");
    return other.job_id === job?.job_id || !analysis ? [] : [{ name: nameOf(other), id: analysis.analysis_id }];
  });
  const data = useQueries({ queries: compared.map(({ id }) => dataQuery(id)) });
  const others = compared.flatMap(({ name }, i) => {
    const tables = data[i]?.data?.tables;
    return tables ? [{ name, tables }] : [];
  });
  return { others, areMore: Boolean(batch.data?.next_page) };
}

/** Shows a frame of the job that was analysed; nothing where the frames are another trajectory's. */
function seeFrame({ request }: Analysis, job: Schemas["JobRecord"] | undefined): ((frame: number) => void) | undefined {
  return job && request.trajectory === undefined ? (frame) => go(address("job", { job_id: job.job_id, frame: String(frame) })) : undefined;
}

type TablePanelProps = { table: Table; tables: readonly Table[]; analysis: Analysis; job: Schemas["JobRecord"] | undefined; own: string; others: readonly Other[] };

function TablePanel({ table, tables, analysis, job, own, others }: TablePanelProps) {
  const [isShown, show] = useState(false);
  const onFrame = seeFrame(analysis, job);
  const matrix = useMemo(() => matrixOf(table), [table]);
  const states = useMemo(() => statesOf(table, tables), [table, tables]);
  const plots = useMemo(() => {
    const time = timeUnitOf(table);
    return plotsOf(table, time).map((plot, i) => compared(plot, i, table, time, own, others));
  }, [table, own, others]);
  const frames = table.columns.find(({ name }) => name === "frame")?.values;
  const pick = (point: number) => {
    const frame = frames?.[point];
    if (typeof frame === "number") onFrame?.(frame);
  };
  return <section className="panel stack">
    <div>
      <h2>{table.title}</h2>
      <p className="small quiet">{table.definition}</p>
      {selectionsOf(table).map((text) => <p key={text} className="small quiet">{text}</p>)}
    </div>
    {matrix && <Heatmap matrix={matrix} />}
    {states && <States states={states} onFrame={onFrame} />}
    {plots.map((plot, i) => <SeriesChart key={i} {...plot} height={200}
      {...(frames && onFrame && others.length === 0 ? { onPick: pick } : {})} />)}
    {frames && onFrame && plots.length > 0 && <p className="small quiet on-screen">A click at a point shows its frame.</p>}
    {onFrame && isDrawn(table) && <div><button aria-pressed={isShown} onClick={() => show(!isShown)}>Show in the structure</button></div>}
    {job && isShown && <Suspense fallback={<div className="stage"><p className="quiet">Loading…</p></div>}>
      <Measured job={job} table={table} asked={analysis.request} />
    </Suspense>}
    <details open={plots.length === 0 && !matrix}>
      <summary>Numbers</summary>
      <div className="end"><button onClick={() => saveCsv(fileNameOf(own, table.name), table.columns)}>CSV</button></div>
      <Numbers table={table} />
    </details>
  </section>;
}

/** Whether a table measures what can be drawn between atoms; the water of a group has no numbers of its own. */
function isDrawn({ kind, columns }: Table): boolean {
  return kind === "distance" || (kind === "hydrogen_bonds" && columns.some(({ name }) => name === "hydrogen_atom"));
}

/** A curve with the same of other jobs over it, in its unit, where there is one alone. */
function compared(plot: Plot, i: number, table: Table, time: TimeUnit, own: string, others: readonly Other[]): Plot {
  const [line, ...more] = plot.lines;
  if (!line || more.length > 0 || others.length === 0) return plot;
  const same = others.flatMap(({ name, tables }) => {
    const match = tables.find(({ title }) => title === table.title);
    const other = match && plotsOf(match, time)[i]?.lines.find(({ name }) => name === line.name);
    return other ? [{ ...other, name }] : [];
  });
  return { ...plot, lines: [{ ...line, name: own }, ...same] };
}

function Numbers({ table: { title, columns } }: { table: Table }) {
  const rows = columns[0]?.values.length ?? 0;
  const formats = columns.map(({ unit, values }) =>
    columnOf(values.slice(0, MOST_ROWS), unit === "ps" ? toFemtosecond : significant(5)));
  return <div className="scroll numbers" role="region" aria-label={`Numbers: ${title}`} tabIndex={0}>
    <table>
      <thead>
        <tr>{columns.map(({ name, unit, definition }) => <th key={name} scope="col" title={definition}
          className={isText(name, columns) ? undefined : "number"}>{name}{unit !== undefined && ` (${unit})`}</th>)}</tr>
      </thead>
      <tbody>{Array.from({ length: Math.min(rows, MOST_ROWS) }, (_, i) => <tr key={i}>
        {columns.map(({ name, values }, nth) => <td key={name} className={isText(name, columns) ? undefined : "number"}>
          {cell(values[i], formats[nth])}
        </td>)}
      </tr>)}</tbody>
    </table>
    {rows > MOST_ROWS && <p className="quiet">The first {number(MOST_ROWS)} of {number(rows)} rows; the file has all.</p>}
  </div>;
}

function isText(name: string, columns: Table["columns"]): boolean {
  return typeof columns.find((column) => column.name === name)?.values[0] === "string";
}

function cell(value: unknown, format: ((value: number) => string) | undefined): string {
  if (typeof value === "number") return format?.(value) ?? "";
  return value === null || value === undefined ? "" : String(value);
}

async function zipOf(analysis_id: string, of: string): Promise<void> {
  const zip = await expectData(molbox.GET("/retrieve/analysis/{job_id}", {
    params: { path: { job_id: analysis_id } }, headers: { accept: "application/zip" }, parseAs: "blob",
  }));
  save(`${fileNameOf(of, analysis_id)}.zip`, zip);
}
