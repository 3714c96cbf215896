//! A structure to look at, and what can be done with it.
import { useEffect, useRef, useState } from "react";

import { save } from "../chart/save.ts";
import { Notice } from "../part/notice.tsx";
import { number } from "../part/number.ts";
import { type Format, type Picked, type Shown, Stage } from "./stage.ts";

type Props = { text: string; format: Format; name: string };

export default function Viewer({ text, format, name }: Props) {
  const target = useRef<HTMLDivElement>(null);
  const [stage, setStage] = useState<Stage>();
  const [shown, setShown] = useState<Shown>();
  const [picked, pick] = useState<Picked>();
  const [hasWater, setWater] = useState(false);
  const [error, fail] = useState<Error>();
  const [tries, setTries] = useState(0);
  useEffect(() => {
    const place = target.current;
    if (!place) return;
    // Mol* fills what it is given; what React renders stays as it is.
    const canvas = document.createElement("div");
    place.append(canvas);
    let made: Stage | undefined;
    let isGone = false;
    const start = async () => {
      made = await Stage.mount(canvas);
      if (isGone) return made.dispose();
      made.onPick(pick);
      const counted = await made.show(text, format);
      if (isGone) return;
      setStage(made);
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
      setShown(undefined);
      setWater(false);
      pick(undefined);
      made?.dispose();
      canvas.remove();
    };
  }, [text, format, tries]);

  const again = () => {
    fail(undefined);
    setTries(tries + 1);
  };
  const toggleWater = () => {
    setWater(!hasWater);
    void stage?.water(!hasWater);
  };
  const takePicture = async () => {
    if (stage) save(`${name}.png`, await stage.picture());
  };
  return <section className="stack" aria-label="Structure">
    <div className="stage">
      <div ref={target} role="img" data-shown={shown !== undefined}
        aria-label={shown ? `Structure of ${number(shown.atoms)} atoms` : "Structure"} />
      {!shown && !error && <p className="quiet">Loading…</p>}
    </div>
    {error && <Notice kind="bad">
      <p>{error.message}</p>
      <p><button onClick={again}>Start the viewer again</button></p>
    </Notice>}
    {shown && <div className="spread">
      <p role="status" className="quiet">{picked
        ? <>{picked.residueName} {picked.residue} of chain {picked.chain}, atom <code>{picked.atom}</code></>
        : `${number(shown.atoms)} atoms. Click one to learn its name.`}</p>
      <div className="row">
        {shown.hasWater && <button aria-pressed={hasWater} onClick={toggleWater}>Water</button>}
        <button onClick={() => stage?.reset()}>Show all</button>
        <button onClick={() => void takePicture()}>Picture</button>
      </div>
    </div>}
  </section>;
}
