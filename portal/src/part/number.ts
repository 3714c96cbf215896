//! Numbers as people read them.

/** The language of the portal: numbers and dates are written as its sentences are, whatever the browser speaks. */
export const LANGUAGE = "en-GB";

/** Digits of what is estimated. */
export const ROUGH = 2;

const whole = new Intl.NumberFormat(LANGUAGE);
const share = new Intl.NumberFormat(LANGUAGE, { style: "percent", maximumFractionDigits: 0 });

const MOST_DECIMALS = 8;

/** Part of the largest of some numbers below which another is what rounding leaves of 0. */
const ROUNDING = 1e-12;

/** With at most so many significant digits, and all of those before the point. */
export function number(value: number, digits = 4): string {
  if (Number.isInteger(value) || Math.abs(value) >= 10 ** (digits - 1)) return whole.format(Math.round(value));
  return new Intl.NumberFormat(LANGUAGE, { maximumSignificantDigits: digits }).format(value);
}

/** A number that is known to within a few per cent. */
export function roughly(value: number): string {
  return new Intl.NumberFormat(LANGUAGE, { maximumSignificantDigits: ROUGH }).format(value);
}

/**
 * How to write the numbers of a column: with as many decimals as the one that needs most when it is rounded, so that
 * they can be compared by their places.
 */
export function columnOf(values: readonly unknown[], rounded = significant(4)): (value: number) => string {
  const numbers = values.filter((value) => typeof value === "number");
  const largest = Math.max(0, ...numbers.map(Math.abs));
  const exact = (value: number) => (Math.abs(value) <= ROUNDING * largest ? 0 : value);
  const decimals = Math.max(0, ...numbers.map((value) => decimalsOf(rounded(exact(value)))));
  // Beside very small numbers the others would have digits that do not matter.
  if (decimals > MOST_DECIMALS) return (value) => number(rounded(exact(value)), MOST_DECIMALS);
  const format = new Intl.NumberFormat(LANGUAGE, { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return (value) => format.format(exact(value));
}

/** Rounds to so many significant digits. */
export function significant(digits: number): (value: number) => number {
  return (value) => Number(value.toPrecision(digits));
}

/** Rounds a time of a trajectory, however long that is. */
export function toFemtosecond(ps: number): number {
  return Number(ps.toFixed(3));
}

/** Decimals in the shortest text of a number; of an exponent, more than are shown. */
function decimalsOf(value: number): number {
  const text = String(value);
  return text.includes("e-") ? MOST_DECIMALS + 1 : (text.split(".")[1]?.length ?? 0);
}

/** How many there are of something, which takes an s where there is not one. */
export function counted(count: number, what: string): string {
  return `${number(count)} ${what}${count === 1 ? "" : "s"}`;
}

/** A time of a trajectory, however long that is: with its decimals, to a femtosecond of ps. */
export function moment(ps: number): string {
  return new Intl.NumberFormat(LANGUAGE, { maximumFractionDigits: 3 }).format(ps);
}

/** Ticks of an axis: all with as many decimals as they need to be where they say, and no more. */
export function tickLabels(values: readonly number[]): string[] {
  const [first = 0, second = first + 1] = values;
  const near = Math.abs(second - first) / 1000;
  // What has been added up misses a round number by a little.
  const isExact = (decimals: number) => values.every((value) => Math.abs(value - Number(value.toFixed(decimals))) <= near);
  const decimals = Array.from({ length: MOST_DECIMALS + 1 }, (_, i) => i).find(isExact);
  if (decimals === undefined) return values.map((value) => number(value, MOST_DECIMALS));
  const format = new Intl.NumberFormat(LANGUAGE, { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return values.map((value) => format.format(value));
}

/** A part of a whole, rounded down, so that 100 % means the end. */
export function percent(fraction: number): string {
  return share.format(Math.floor(fraction * 100) / 100);
}

const UNITS = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"] as const;

/** A size in steps of 1000, as disks are sold. */
export function bytes(size: number, digits = 3): string {
  let step = 0;
  while (size >= 999.5 && step < UNITS.length - 1) {
    size /= 1000;
    step += 1;
  }
  return new Intl.NumberFormat(LANGUAGE, {
    // The short form of a byte has no plural.
    style: "unit", unit: UNITS[step] ?? "byte", unitDisplay: step === 0 ? "long" : "short", maximumSignificantDigits: digits,
  }).format(size);
}

/** Hours of a limit, to a tenth. */
export function hours(value: number): string {
  return new Intl.NumberFormat(LANGUAGE, { maximumFractionDigits: 1 }).format(value);
}

/** A time span in its two largest units. */
export function duration(seconds: number): string {
  const unit = (value: number, name: string) =>
    new Intl.NumberFormat(LANGUAGE, { style: "unit", unit: name, unitDisplay: "short" }).format(value);
  if (seconds < 60) return unit(Math.ceil(seconds), "second");
  const minutes = Math.ceil(seconds / 60);
  if (minutes < 60) return unit(minutes, "minute");
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 === 0 ? unit(hours, "hour") : `${unit(hours, "hour")} ${unit(minutes % 60, "minute")}`;
  return `${unit(Math.floor(hours / 24), "day")}${hours % 24 === 0 ? "" : ` ${unit(hours % 24, "hour")}`}`;
}
