//! What is wrong with a form, by its fields, before the service sees it.
import { type FormEvent, useState } from "react";

type Found<Place extends string> = Partial<Record<Place, string>>;

/**
 * `isRight` says what is wrong, when the form is sent. As one types, `look` has it looked at again: what was put right is
 * no longer said, and nothing new is.
 */
export function useWrong<Place extends string>(find: (data: FormData) => Found<Place>): {
  wrong: Found<Place>; isRight: (data: FormData) => boolean; look: (event: FormEvent<HTMLFormElement>) => void;
} {
  const [wrong, say] = useState<Found<Place>>({});
  const isRight = (data: FormData) => {
    const found = find(data);
    say(found);
    return Object.keys(found).length === 0;
  };
  const look = ({ currentTarget }: FormEvent<HTMLFormElement>) => {
    const still = Object.entries(find(new FormData(currentTarget))).filter(([place]) => place in wrong);
    say(Object.fromEntries(still) as Found<Place>);
  };
  return { wrong, isRight, look };
}
