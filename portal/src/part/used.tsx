//! How much of a limit is used, as numbers and as a bar.
import { useId } from "react";

type Props = {
  label: string;
  used: number;
  /** The limit; absent where there is none. */
  most?: number;
  words: (value: number) => string;
};

/** From here on a limit is near. */
const NEAR = 0.9;

export function Used({ label, used, most, words }: Props) {
  const id = useId();
  return <div className="used">
    <div className="spread">
      <span id={id}>{label}</span>
      <span className="quiet">{words(used)}{most === undefined ? "" : ` of ${words(most)}`}</span>
    </div>
    {most !== undefined && <meter aria-labelledby={id} value={used} max={Math.max(most, 1)} low={NEAR * most}
      high={NEAR * most} optimum={0} />}
  </div>;
}
