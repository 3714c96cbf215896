//! What is wrong with a form where nobody has been: it is told when the form is to be sent.
import { useState } from "react";
import { flushSync } from "react-dom";

import type { Violation } from "../api/client.ts";

/** Without what is wrong where `isUntouched`, until `showAll`; what that shows is there when it returns. */
export function useTold(
  violations: readonly Violation[], isUntouched: (loc: Violation["loc"]) => boolean,
): { told: readonly Violation[]; showAll: () => void } {
  const [isAll, all] = useState(false);
  return {
    told: isAll ? violations : violations.filter(({ loc }) => !isUntouched(loc)),
    showAll: () => flushSync(() => all(true)),
  };
}
