//! What is done at the service by a click: once, however fast the clicks follow each other.
import { useMutation, type UseMutationOptions, type UseMutationResult } from "@tanstack/react-query";
import { useRef } from "react";

/**
 * A mutation that is not begun again before it has ended. `isPending` is of the last drawing of the page: both clicks of
 * a double click find it false.
 */
export function useOnce<Data, Variables = void>(
  options: UseMutationOptions<Data, Error, Variables>,
): UseMutationResult<Data, Error, Variables> {
  const isUnderWay = useRef(false);
  const mutation = useMutation<Data, Error, Variables>({
    ...options,
    onSettled: async (...all) => {
      await options.onSettled?.(...all);
      isUnderWay.current = false;
    },
  });
  const mutate: typeof mutation.mutate = (...given) => {
    if (isUnderWay.current) return;
    isUnderWay.current = true;
    mutation.mutate(...given);
  };
  return { ...mutation, mutate } as typeof mutation;
}
