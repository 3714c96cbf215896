//! The margin of a portfolio: a file in, a table out. Nothing is kept.
import { type DragEvent, type FormEvent, Suspense, useRef, useState } from "react";

import { expectData, molbox, type Schemas } from "../api/client.ts";
import { fields } from "../api/fields.ts";
import { later } from "../api/later.ts";
import { sentence } from "../api/words.ts";
import { save } from "../chart/save.ts";
import { FieldControl } from "../form/field.tsx";
import { Fold } from "../form/fold.tsx";
import { read, type Typed, Wrong } from "../form/form.ts";
import { FieldGroup } from "../form/group.tsx";
import { HISTORY, MARGIN } from "../form/groups.ts";
import { focusOnWrong, useFocusOnWrong, useSubmission } from "../form/submit.tsx";
import { Waits } from "../form/waits.tsx";
import { WrongAtTop } from "../form/wrong.tsx";
import { Failure, Notice } from "../part/notice.tsx";
import { columnOf, LANGUAGE, number } from "../part/number.ts";

type Format = Schemas["DataFormat"];
type Request = Schemas["MarginJobRequest"];
type Report = Schemas["MarginReport"];
type Asked = { format: Format; body: Request };

/** Charts come when there is something to draw. */
const LossChart = later(async () => ({ default: (await import("../chart/losses.tsx")).LossChart }));

const FORMATS = ["csv", "json", "yaml", "xml", "fpml"] as const satisfies readonly Format[];
const NAMES = ["portfolio", ...MARGIN.flatMap(({ often, seldom }) => [...often, ...seldom]), ...Object.values(HISTORY).flat().map((name) => `settings.${name}`)];
const CURRENCIES: ReadonlySet<string> = new Set(Intl.supportedValuesOf("currency"));
const EXAMPLE = "ticker,type,quantity,entryDate,entryPrice\nXEQ1,long,12,,\nXEQ3,short,40,2024-11-29,\n";

export default function Margin() {
  const [text, setText] = useState("");
  const [chosen, choose] = useState<Format>();
  const [typed, setTyped] = useState<Typed>({});
  const [history, setHistory] = useState<Typed>({});
  const [answer, setAnswer] = useState<{ report: Report; asked: Asked }>();
  const format = chosen ?? formatOf(text);

  const main = read(fields.MarginJobRequest, typed);
  const settings = read(fields.HistoricalSettings, history, ["settings"]);
  const unread = [...main.wrong, ...settings.wrong];
  const body: Request = {
    ...main.body,
    ...(Object.keys(settings.body).length > 0 ? { settings: settings.body } : {}),
    portfolio: { data: text },
  };
  const submission = useSubmission<Asked, { report: Report; asked: Asked }>(
    { format, body },
    async (asked) => ({ report: await reportOf(asked), asked }),
    setAnswer,
  );
  const wrong = new Wrong(unread.length > 0 ? unread : submission.violations, new Set(NAMES));
  useFocusOnWrong(submission.error);

  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (text.trim() === "") return;
    if (unread.length === 0) void submission.submit();
    else focusOnWrong();
  };
  return <div className="stack">
    <title>Margin · molbox</title>
    <form className="stack" onSubmit={submit} noValidate>
      <div className="spread form-head">
        <h1>Margin</h1>
        <button className="main" disabled={text.trim() === ""} aria-busy={submission.isBusy}>
          {submission.isBusy ? "Calculating…" : "Calculate"}
        </button>
      </div>
      <Waits submission={submission} />
      {submission.failure
        && <Failure error={submission.failure} again={() => void submission.submit()} />}
      <WrongAtTop wrong={wrong} />
      <div className="columns form-columns">
        <div className="stack">
          <PortfolioText text={text} format={format} wrong={wrong.at("portfolio")} onText={setText} onFormat={choose} />
          {answer && <Result report={answer.report} asked={answer.asked}
            isOld={JSON.stringify(answer.asked) !== JSON.stringify({ format, body })} />}
        </div>
        <div className="stack aside">
          {MARGIN.map((group) => <FieldGroup key={group.title} group={group} fields={fields.MarginJobRequest}
            typed={typed} onType={setTyped} wrong={wrong} isOpen={isUsed(datesOf(group.title), history, wrong)}>
            <Dates names={datesOf(group.title)} isFolded={group.often.length > 0} typed={history} onType={setHistory} wrong={wrong} />
          </FieldGroup>)}
        </div>
      </div>
    </form>
  </div>;
}

type DateName = (typeof HISTORY)[keyof typeof HISTORY][number];

/** The dates of the history that belong to a group. */
function datesOf(title: (typeof MARGIN)[number]["title"]): readonly DateName[] {
  return title === "Scenarios" || title === "A time of stress" ? HISTORY[title] : [];
}

function isUsed(names: readonly DateName[], typed: Typed, wrong: Wrong): boolean {
  return names.some((name) => (typed[name] ?? "") !== "" || wrong.at("settings", name) !== undefined);
}

type DatesProps = {
  names: readonly DateName[];
  /** Whether nothing else folds them. */
  isFolded: boolean;
  typed: Typed;
  onType: (typed: Typed) => void;
  wrong: Wrong;
};

function Dates({ names, isFolded, typed, onType, wrong }: DatesProps) {
  if (names.length === 0) return null;
  const controls = <div className="fields">{names.map((name) => <FieldControl key={name} name={name}
    field={fields.HistoricalSettings[name]} typed={typed[name]} wrong={wrong.at("settings", name)}
    onType={(value) => onType({ ...typed, [name]: value })} />)}</div>;
  if (!isFolded) return controls;
  return <Fold summary="Which dates the scenarios are drawn from" isUsed={isUsed(names, typed, wrong)}>{controls}</Fold>;
}

type TextProps = {
  text: string;
  format: Format;
  wrong: string | undefined;
  onText: (text: string) => void;
  onFormat: (format: Format | undefined) => void;
};

function PortfolioText({ text, format, wrong, onText, onFormat }: TextProps) {
  const [isOver, setOver] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  const input = useRef<HTMLInputElement>(null);
  const take = async (file: File | undefined) => {
    if (!file) return;
    onFormat(formatOfName(file.name));
    onText(await file.text());
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    void take(event.dataTransfer.files[0]);
  };
  const line = lineOf(wrong);
  return <section className={`panel stack ${isOver ? "over" : ""}`} onDrop={drop}
    onDragOver={(event) => (event.preventDefault(), setOver(true))} onDragLeave={() => setOver(false)}>
    <div className="spread">
      <h2>Portfolio</h2>
      <div className="row">
        <label className="row">Format
          <select className="short" value={format} onChange={(event) => onFormat(FORMATS.find((known) => known === event.target.value))}>
            {FORMATS.map((known) => <option key={known}>{known}</option>)}
          </select>
        </label>
        <button type="button" onClick={() => input.current?.click()}>Choose a file…</button>
        <input ref={input} type="file" hidden aria-label="Portfolio file" accept=".csv,.json,.yaml,.yml,.xml"
          onChange={(event) => {
            void take(event.target.files?.[0]);
            // The same file chosen again, perhaps changed meanwhile, is news to the browser.
            event.target.value = "";
          }} />
      </div>
    </div>
    <textarea ref={area} rows={12} value={text} spellCheck={false} aria-label="Portfolio" aria-describedby="portfolio-help"
      aria-invalid={wrong === undefined ? undefined : true} placeholder={EXAMPLE}
      onChange={(event) => onText(event.target.value)} />
    <p id="portfolio-help" className="small quiet">
      {wrong !== undefined && <strong className="bad">{sentence(wrong)} </strong>}
      Type it, or drop a file here. Nothing is stored: leaving this page forgets it.
    </p>
    {line !== undefined && <div><button type="button" onClick={() => area.current && showLine(area.current, line)}>
      Go to line {line}
    </button></div>}
  </section>;
}

type ResultProps = {
  report: Report;
  asked: Asked;
  /** Whether something else would be asked for now. */
  isOld: boolean;
};

function Result({ report, asked, isOld }: ResultProps) {
  const { summary, rows, warnings, losses, worstScenarios: worst } = report;
  const currency = summary.baseCurrency;
  const level = summary.confidence === undefined ? "" : ` at ${number(100 * summary.confidence, 6)}\u00a0%`;
  const [error, setError] = useState<Error>();
  const csv = async () => {
    try {
      save("margin.csv", await csvOf(asked));
      setError(undefined);
    } catch (error) {
      setError(error instanceof Error ? error : new Error(String(error)));
    }
  };
  return <div className="stack" aria-live="polite">
    {isOld && <Notice kind="waiting"><p>
      What follows, and its CSV, is of the portfolio and settings before your change. Calculate again.
    </p></Notice>}
    <section className="panel stack">
      <div className="spread">
        <h2>Totals{currency === undefined ? "" : ` in ${currency}`}{isOld && ", before your change"}</h2>
        <button type="button" onClick={() => void csv()}>CSV</button>
      </div>
      {error && <Failure error={error} />}
      <dl className="figures">
        <div><dt>initial margin</dt><dd>{amount(summary.initialMargin, currency)}</dd></div>
        <div><dt>maintenance margin</dt><dd>{amount(summary.maintenanceMargin, currency)}</dd></div>
        {summary.expectedShortfall !== undefined && <div>
          <dt>expected shortfall{level}</dt>
          <dd>{amount(summary.expectedShortfall, currency)}</dd>
        </div>}
        {summary.valueAtRisk !== undefined && <div><dt>value at risk{level}</dt><dd>{amount(summary.valueAtRisk, currency)}</dd></div>}
        {summary.stressedMargin !== undefined && <div>
          <dt>margin of the time of stress</dt><dd>{amount(summary.stressedMargin, currency)}</dd>
        </div>}
        {summary.stressAddOn !== undefined && <div><dt>added for the stress</dt><dd>{amount(summary.stressAddOn, currency)}</dd></div>}
      </dl>
      {summary.poolDates !== undefined && <p className="small quiet">
        For {summary.marginDate}, from {number(summary.poolDates)} dates from {summary.firstPoolDate} to {summary.lastPoolDate}.
        The initial margin is the {summary.riskMeasure === "value_at_risk" ? "value at risk" : "expected shortfall"}
        {summary.stressAddOn !== undefined && <>, and what {number(summary.stressDates ?? 0)} dates of stress add to it</>}.
      </p>}
      {summary.sigma && Object.keys(summary.sigma).length > 0 && <Volatilities sigma={summary.sigma} />}
    </section>
    {warnings.length > 0 && <Notice kind="waiting">{warnings.map((text) => <p key={text}>{sentence(text)}</p>)}</Notice>}
    {rows.length > 0 ? <Positions rows={rows} /> : <section className="panel stack">
      <h2>Positions</h2>
      <p>The portfolio has no positions: there is nothing to ask a margin for.</p>
    </section>}
    {losses && losses.length > 0 && <section className="panel stack">
      <h2>Losses of {number(losses.length)} scenarios</h2>
      <Suspense fallback={<p className="quiet">Loading…</p>}>
        <LossChart losses={losses} currency={currency}
          marked={[summary.valueAtRisk, summary.expectedShortfall].filter((loss) => loss !== undefined)} />
      </Suspense>
      <p className="small quiet">Gains are negative. Dashed: the value at risk and, beyond it, the expected shortfall.</p>
    </section>}
    {worst && worst.length > 0 && <Worst scenarios={worst} currency={currency} />}
  </div>;
}

function Positions({ rows }: { rows: Report["rows"] }) {
  // Amounts of one currency alone can be told apart by their length.
  const hasBars = new Set(rows.map(({ currency }) => currency)).size === 1;
  const contracts = columnOf(rows.map(({ quantity }) => quantity));
  const largest = Math.max(...rows.map(({ initialMargin }) => Math.abs(initialMargin)), Number.MIN_VALUE);
  return <section className="panel scroll">
    <h2>Positions</h2>
    <table>
      <thead>
        <tr>
          <th scope="col">Ticker</th>
          <th scope="col" className="wide">Side</th>
          <th scope="col" className="number">Contracts</th>
          <th scope="col" className="number wide">Value</th>
          <th scope="col" className="number wide">Gain</th>
          <th scope="col" className="number">Initial margin</th>
          {hasBars && <th scope="col" className="wide"><span className="unseen">Part of the margin; hedges lie to the left</span></th>}
          <th scope="col" className="wide">Currency</th>
        </tr>
      </thead>
      <tbody>{rows.map((row, i) => <tr key={i}>
        <td className="words">{row.ticker}<div className="small only-narrow quiet">{row.positionType}</div></td>
        <td className="wide">{row.positionType}</td>
        <td className="number">{contracts(row.quantity)}</td>
        <td className="number wide">{amount(row.currentMarketValue, row.currency)}</td>
        <td className="number wide">{amount(row.variationMargin, row.currency)}</td>
        <td className="number">{amount(row.initialMargin, row.currency)}<span className="only-narrow quiet">{"\u00a0"}{row.currency}</span></td>
        {hasBars && <td className="wide part-of-margin"><Bar share={row.initialMargin / largest} /></td>}
        <td className="wide">{row.currency}</td>
      </tr>)}</tbody>
    </table>
  </section>;
}

/** How much each price moves in a day. */
function Volatilities({ sigma }: { sigma: Readonly<Record<string, number>> }) {
  return <details className="told">
    <summary>Volatilities of a day</summary>
    <dl>{Object.entries(sigma).map(([ticker, value]) => <div className="pair" key={ticker}>
      <dt>{ticker}</dt><dd>{number(value)}</dd>
    </div>)}</dl>
  </details>;
}

/** The scenarios in which most is lost, with the dates that they are made of. */
function Worst({ scenarios, currency }: { scenarios: readonly Schemas["MarginScenario"][]; currency: string | undefined }) {
  return <section className="panel">
    <h2>The worst scenarios</h2>
    <div className="scroll numbers" role="region" aria-label="The worst scenarios" tabIndex={0}><table className="narrow-table">
      <thead><tr>
        <th scope="col" className="number">Loss{currency === undefined ? "" : `, ${currency}`}</th>
        <th scope="col">Drawn from</th>
      </tr></thead>
      <tbody>{scenarios.map(({ loss, dates }, i) => <tr key={i}>
        <td className="number">{amount(loss, currency)}</td>
        <td className="words">{dates.join(", ")}</td>
      </tr>)}</tbody>
    </table></div>
  </section>;
}

/** A bar from the middle: to the right what adds, to the left what hedges. */
function Bar({ share }: { share: number }) {
  const width = 50 * Math.min(1, Math.abs(share));
  return <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
    <rect x={share < 0 ? 50 - width : 50} y="1" width={width} height="8" className={share < 0 ? "hedge" : "adds"} />
    <line x1="50" x2="50" y1="0" y2="10" />
  </svg>;
}

/** With the decimals of its currency, so that amounts below each other can be compared by their places. */
function amount(value: number, currency = ""): string {
  // Whatever a portfolio says may stand in the place of a currency.
  const { maximumFractionDigits: decimals = 2 } = CURRENCIES.has(currency)
    ? new Intl.NumberFormat(LANGUAGE, { style: "currency", currency }).resolvedOptions() : {};
  return new Intl.NumberFormat(LANGUAGE, { minimumFractionDigits: decimals, maximumFractionDigits: decimals }).format(value);
}

async function reportOf({ format, body }: Asked): Promise<Report> {
  const report = await expectData(molbox.POST("/margin/submit_job/historical/{data_format}", {
    params: { path: { data_format: format }, query: { shape: "report" } }, body,
  }));
  if (Array.isArray(report) || typeof report === "string" || "portfolios" in report) throw new Error("the service answered in another shape");
  return report;
}

/** The same calculation as the file to keep, with a line for the total; the seed makes it the same numbers. */
async function csvOf({ format, body }: Asked): Promise<Blob> {
  return new Blob([await expectData(molbox.POST("/margin/submit_job/historical/{data_format}", {
    params: { path: { data_format: format } }, body, headers: { accept: "text/csv; total=present" }, parseAs: "text",
  })) as string], { type: "text/csv" });
}

function formatOfName(name: string): Format | undefined {
  const extension = name.split(".").at(-1)?.toLowerCase();
  if (extension === "yml") return "yaml";
  // XML may be either; its first characters tell.
  return extension === "xml" ? undefined : FORMATS.find((known) => known === extension);
}

/** What the first characters look like. */
function formatOf(text: string): Format {
  const start = text.trimStart().slice(0, 4000);
  if (start.startsWith("<")) return start.includes("FpML") || start.includes("fpml") ? "fpml" : "xml";
  if (start.startsWith("{") || start.startsWith("[")) return "json";
  return /^(---|\w+:|- )/.test(start) ? "yaml" : "csv";
}

function lineOf(msg: string | undefined): number | undefined {
  const line = msg?.match(/\bline (\d+)/)?.[1];
  return line === undefined ? undefined : Number(line);
}

function showLine(area: HTMLTextAreaElement, line: number): void {
  const lines = area.value.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, before) => sum + before.length + 1, 0);
  area.focus();
  area.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
}
