//! What is folded until it is of use, and stays open from then on: what is typed away does not fold it again.
import { type ReactNode, useEffect, useState } from "react";

type Props = { summary: string; isUsed: boolean; className?: string; children: ReactNode };

export function Fold({ summary, isUsed, className, children }: Props) {
  const [isOpen, open] = useState(isUsed);
  useEffect(() => {
    if (isUsed) open(true);
  }, [isUsed]);
  return <details className={className} open={isOpen} onToggle={({ currentTarget }) => open(currentTarget.open)}>
    <summary>{summary}</summary>
    {children}
  </details>;
}
