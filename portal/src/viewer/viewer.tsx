//! A structure to look at, alone or moving, and what can be done with it.
import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";

import { Refused } from "../api/client.ts";
import { save } from "../chart/save.ts";
import { useBack } from "../part/back.ts";
import { Copy } from "../part/copy.tsx";
import { Notice, wordsOf } from "../part/notice.tsx";
import { number } from "../part/number.ts";
import { Dcd, type ReadRange } from "./dcd.ts";
import { maskOf, type Part, toggled } from "./mask.ts";
import type { Line, Measured, Run } from "./measure.ts";
import { type Format, type Picked, type Residue, type Shown, Stage } from "./stage.ts";

const NONE: readonly Run[] = [];

/** What one click picks. */
const GRAINS = ["atom", "residue", "chain"] as const;
type Grain = (typeof GRAINS)[number];

function partsOf({ maskResidue: residue, atom, maskChain }: Picked, grain: Grain): Part[] {
  if (grain === "atom") return [{ residue, atom }];
  return grain === "residue" ? [{ residue }] : maskChain().map((of) => ({ residue: of }));
}

/** A stage that runs has no frames at first: the structure is shown without. */
function noneYet(error: unknown): undefined {
  if (!(error instanceof Refused) || error.status !== 409) throw error;
}

type Props = {
  /** What is shown, by a name that is another when it is another. */
  id: string;
  read: () => Promise<{ text: string; format: Format }>;
  /** The frames, of the same atoms. */
  frames?: ReadRange;
  /** The frame that is shown first, from 0. */
  firstFrame?: number;
  /** Whether residues are numbered as masks count them. */
  hasMasks?: boolean;
  /** Whether its water is drawn from the beginning. */
  withWater?: boolean;
  /** Atoms that are marked, by the first and the last number of each run. */
  marked?: readonly Run[];
  /** Residues that are gone to, and marked. */
  residues?: readonly Residue[] | undefined;
  /** The chains that are drawn, all of them if none is named; they may become others. */
  chains?: readonly string[] | undefined;
  /** What is measured in each frame, drawn as dashed lines; and who wants to know them. */
  measured?: Measured | undefined;
  onLines?: (lines: readonly Line[]) => void;
  /** Takes the mask of what is picked, and where that goes. */
  onMask?: { label: string; take: (mask: string) => void } | undefined;
  name: string;
};

export default function Viewer({ id, read, frames, firstFrame = 0, hasMasks = false, withWater = false, marked = NONE, residues, chains, measured, onLines, onMask, name }: Props) {
  const target = useRef<HTMLDivElement>(null);
  const [stage, setStage] = useState<Stage>();
  const [dcd, setDcd] = useState<Dcd>();
  const [shown, setShown] = useState<Shown>();
  const [picked, pick] = useState<Picked>();
  const [parts, setParts] = useState<Part[]>([]);
  /** What was picked is known some time after the click, where drawing is slow. */
  const [clicks, setClicks] = useState(0);
  const [grain, setGrain] = useState<Grain>("atom");
  const grainNow = useRef(grain);
  grainNow.current = grain;
  const [hasWater, setWater] = useState(false);
  const [hasBox, setBox] = useState(false);
  const [isFound, find] = useState<boolean>();
  const [error, fail] = useState<Error>();
  const [tries, setTries] = useState(0);
  const playing = useRef<Playing>(undefined);
  const keys = useId();
  useEffect(() => {
    const place = target.current;
    if (!place) return;
    fail(undefined);
    // Mol* fills what it is given; what React renders stays as it is.
    const canvas = document.createElement("div");
    place.append(canvas);
    let made: Stage | undefined;
    let isGone = false;
    const start = async () => {
      const [{ text, format }, opened] = await Promise.all([read(), frames ? Dcd.open(frames).catch(noneYet) : undefined]);
      if (isGone) return;
      made = await Stage.mount(canvas);
      if (isGone) return made.dispose();
      made.onPick((picked, isMore) => {
        setClicks((before) => before + 1);
        // A click past the atoms lets go of what was picked, unless more was to be picked.
        if (!picked && isMore) return;
        pick(picked);
        if (!picked) return setParts([]);
        const found = partsOf(picked, grainNow.current);
        setParts((before) => (isMore ? toggled(before, found) : found));
      });
      const counted = await made.show(text, format, opened, chains && []);
      if (withWater) await made.water(true);
      if (chains && chains.length > 0) {
        await made.keep(chains);
        made.reset();
      }
      if (isGone) return;
      setWater(withWater);
      setStage(made);
      setDcd(opened);
      setShown(counted);
    };
    start().catch((error: unknown) => {
      if (!isGone) fail(error instanceof Error ? error : new Error(String(error)));
    });
    const lost = () => fail(new Error("The browser has taken the graphics of the viewer back."));
    canvas.addEventListener("webglcontextlost", lost, true);
    return () => {
      isGone = true;
      canvas.removeEventListener("webglcontextlost", lost, true);
      setStage(undefined);
      setDcd(undefined);
      setShown(undefined);
      setWater(false);
      setBox(false);
      pick(undefined);
      setParts([]);
      made?.dispose();
      canvas.remove();
    };
  }, [id, tries]);

  useEffect(() => stage?.mark(marked), [stage, marked]);
  useEffect(() => void stage?.measure(measured, onLines ?? (() => undefined)), [stage, measured, onLines]);
  useEffect(() => {
    find(stage && residues && residues.length > 0 ? stage.goTo(residues) : undefined);
  }, [stage, residues]);

  useEffect(() => {
    if (!stage || !chains) return;
    let isOld = false;
    const draw = async () => {
      const atoms = await stage.keep(chains);
      if (isOld) return;
      setShown((before) => before && { ...before, atoms });
      pick(undefined);
    };
    draw().catch((error: unknown) => isOld || fail(error instanceof Error ? error : new Error(String(error))));
    return () => void (isOld = true);
  }, [stage, chains?.join()]);

  const again = () => setTries(tries + 1);
  useBack(() => error instanceof TypeError && again());
  const toggleWater = () => {
    setWater(!hasWater);
    void stage?.water(!hasWater);
  };
  const toggleBox = () => {
    setBox(!hasBox);
    void stage?.box(!hasBox);
  };
  const takePicture = async () => {
    if (stage) save(`${name}.png`, await stage.picture());
  };
  const mask = hasMasks ? maskOf(parts) : "";
  const hasFrames = dcd !== undefined && dcd.frames > 1;
  const onKey = (event: KeyboardEvent) => {
    if (!stage || !isForPicture(event) || !didByKey(event, stage, playing.current)) return;
    // The page would scroll, and Mol* has keys of its own where the mouse is over it.
    event.preventDefault();
    event.stopPropagation();
  };
  return <section className="stack" aria-label="Structure" onKeyDown={onKey}>
    <div className="stage" hidden={error !== undefined}>
      <div ref={target} role="img" tabIndex={0} aria-describedby={keys} data-shown={shown !== undefined} data-clicks={clicks}
        aria-label={shown ? `Structure of ${number(shown.atoms)} atoms` : "Structure"} />
      {!shown && <p className="quiet">Loading…</p>}
      <small id={keys} className="keys">{hasFrames && FRAME_KEYS} {VIEW_KEYS}</small>
    </div>
    {error && <Notice kind="bad">
      <p>{wordsOf(error)}</p>
      <p><button type="button" onClick={again}>Start the viewer again</button></p>
    </Notice>}
    {!error && stage && dcd && hasFrames && <Player stage={stage} dcd={dcd} first={firstFrame} playing={playing} />}
    {!error && isFound !== undefined && residues && <p role="status" className="small quiet">
      {isFound ? "Marked: " : "Not in this picture: "}{residuesOf(residues)}.
    </p>}
    {!error && shown && <div className="spread">
      <p role="status" className="quiet">{picked
        ? <>{picked.residueName} {picked.residue} of chain {picked.chain}, atom {picked.atom}{mask !== "" && <>: <code>{mask}</code></>}</>
        : <>{number(shown.atoms)} atoms.
          <span className="on-screen"> Click one {hasMasks ? "for its mask, with shift for more" : "to learn its name"}.</span></>}</p>
      <div className="row">
        {hasMasks && <select className="short" aria-label="What a click picks" value={grain}
          onChange={(event) => setGrain(GRAINS.find((known) => known === event.target.value) ?? "atom")}>
          {GRAINS.map((known) => <option key={known} value={known}>{known}s</option>)}
        </select>}
        {mask !== "" && onMask && <button type="button" onClick={() => onMask.take(mask)}>{onMask.label}</button>}
        {mask !== "" && <Copy text={mask} label="Copy the mask" />}
        {shown.hasWater && <button type="button" aria-pressed={hasWater} onClick={toggleWater}>Water</button>}
        {shown.hasBox && <button type="button" aria-pressed={hasBox} onClick={toggleBox}>Box</button>}
        <button type="button" onClick={() => stage?.reset()}>Show all</button>
        <button type="button" onClick={() => void takePicture()}>Picture</button>
      </div>
    </div>}
  </section>;
}

const FRAME_KEYS = "← and →: a frame back and on; Home and End: the first and the last; space: play and pause.";
const VIEW_KEYS = "Shift and arrows turn the molecule, + and − come nearer and go away, 0 shows all.";
const TURN = Math.PI / 12;
const NEARER = 0.8;

/** Whether a key is none of a control's own, nor of the browser's. */
function isForPicture({ target, key, ctrlKey, metaKey, altKey }: KeyboardEvent): boolean {
  if (ctrlKey || metaKey || altKey || !(target instanceof Element) || target.matches("input, select, textarea")) return false;
  return key !== " " || target.matches("[role=img]");
}

/** Does what a key stands for; false when it stands for nothing. */
function didByKey({ key, shiftKey }: KeyboardEvent, stage: Stage, playing: Playing | undefined): boolean {
  const deeds: Record<string, (() => void) | undefined> = shiftKey
    ? {
      ArrowLeft: () => stage.turn(-TURN, 0), ArrowRight: () => stage.turn(TURN, 0),
      ArrowUp: () => stage.turn(0, -TURN), ArrowDown: () => stage.turn(0, TURN),
      "+": () => stage.zoom(NEARER), "=": () => stage.zoom(NEARER),
    }
    : {
      ArrowLeft: playing && (() => playing.step(-1)), ArrowRight: playing && (() => playing.step(1)),
      Home: playing && (() => playing.step(-Infinity)), End: playing && (() => playing.step(Infinity)),
      " ": playing?.toggle, "+": () => stage.zoom(NEARER), "-": () => stage.zoom(1 / NEARER), "0": () => stage.reset(),
    };
  const deed = deeds[key];
  deed?.();
  return deed !== undefined;
}

const MOST_NAMED = 5;

function residuesOf(residues: readonly Residue[]): string {
  const names = residues.slice(0, MOST_NAMED)
    .map(({ residue_name: name, residue_id: number, chain_id: chain }) => `${name} ${number} of chain ${chain}`);
  const more = residues.length - names.length;
  return names.join(", ") + (more > 0 ? ` and ${number(more)} more` : "");
}

const FRAMES_A_SECOND = [5, 10, 25, 60] as const;
/** A browser that draws slower than this has no graphics card for it. */
const SLOW_MS = 100;

/** What keys do with the frames. */
type Playing = { step: (by: number) => void; toggle: () => void };
type PlayerProps = { stage: Stage; dcd: Dcd; first: number; playing: { current: Playing | undefined } };

/** Plays as fast as it is asked to, and leaves frames out where the machine is slower. */
function Player({ stage, dcd, first, playing }: PlayerProps) {
  const [index, setIndex] = useState(0);
  const [isPlaying, play] = useState(false);
  const [rate, setRate] = useState<number>(25);
  const [error, fail] = useState<Error>();
  const wanted = useRef(0);
  const isDrawing = useRef(false);
  const isGone = useRef(false);
  useEffect(() => {
    isGone.current = false;
    if (first > 0) void show(Math.min(first, dcd.frames - 1));
    return () => void (isGone.current = true);
  }, []);

  /** One frame at a time is drawn; of those that are asked for meanwhile, the last. */
  const show = async (next: number) => {
    wanted.current = next;
    if (isDrawing.current) return;
    isDrawing.current = true;
    try {
      for (let drawn = -1; drawn !== wanted.current && !isGone.current;) {
        drawn = wanted.current;
        await stage.frame(drawn);
        if (!isGone.current) setIndex(drawn);
      }
      fail(undefined);
    } catch (error) {
      play(false);
      if (!isGone.current) fail(error instanceof Error ? error : new Error(String(error)));
    }
    isDrawing.current = false;
  };

  useEffect(() => {
    if (!isPlaying) return;
    const start = wanted.current;
    const begun = performance.now();
    let last = begun;
    let request = requestAnimationFrame(function step(now) {
      if (now - last > SLOW_MS) stage.hurry(true);
      last = now;
      const next = (start + Math.floor(((now - begun) / 1000) * rate)) % dcd.frames;
      if (next !== wanted.current && !isDrawing.current) {
        dcd.readAhead(next);
        void show(next);
      }
      request = requestAnimationFrame(step);
    });
    const stop = () => document.hidden && play(false);
    document.addEventListener("visibilitychange", stop);
    return () => {
      cancelAnimationFrame(request);
      document.removeEventListener("visibilitychange", stop);
      stage.hurry(false);
    };
  }, [isPlaying, rate, dcd]);

  useEffect(() => {
    playing.current = {
      step: (by) => {
        play(false);
        void show(Math.min(dcd.frames - 1, Math.max(0, wanted.current + by)));
      },
      toggle: () => play((before) => !before),
    };
    return () => void (playing.current = undefined);
  }, [dcd]);

  // Counted from 0, as tables, addresses and requests count them.
  const said = `frame ${number(index)} (0–${number(dcd.frames - 1)})`;
  return <>
    <div className="player">
      <button type="button" aria-pressed={isPlaying} title={FRAME_KEYS} onClick={() => play(!isPlaying)}>{isPlaying ? "Pause" : "Play"}</button>
      <input type="range" aria-label="Frame" min={0} max={dcd.frames - 1} value={index}
        aria-valuetext={said} onChange={(event) => void show(Number(event.target.value))} />
      <output className="quiet">{said}</output>
      <select className="short" aria-label="Frames a second" value={rate} onChange={(event) => setRate(Number(event.target.value))}>
        {FRAMES_A_SECOND.map((value) => <option key={value} value={value}>{value}/s</option>)}
      </select>
    </div>
    {error && <Notice kind="bad"><p>{error.message}</p></Notice>}
  </>;
}
