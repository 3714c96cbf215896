//! Where the portal starts.
import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { secondsBefore } from "./api/client.ts";
import { Shell } from "./shell.tsx";
import "./style.css";

const queries: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError: (_error, { queryKey }) => queryKey[0] !== "health" && look() }),
  mutationCache: new MutationCache({ onError: () => look() }),
  defaultOptions: {
    queries: {
      retry: (failures, error) => failures < 2 && secondsBefore(failures, error) !== undefined,
      retryDelay: (failures, error) => 1000 * (secondsBefore(failures, error) ?? 0),
      staleTime: 2000,
    },
  },
});

/** Perhaps the service is gone: what says so asks at once. */
function look(): void {
  void queries.invalidateQueries({ queryKey: ["health"] });
}

const place = document.getElementById("portal");
if (!place) throw new Error("the page has no place for the portal");
createRoot(place).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <Shell />
    </QueryClientProvider>
  </StrictMode>,
);
