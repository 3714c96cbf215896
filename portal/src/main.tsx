//! Where the portal starts.
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { isWorthAnotherTry } from "./api/client.ts";
import { Shell } from "./shell.tsx";
import "./style.css";

const queries = new QueryClient({
  defaultOptions: {
    queries: { retry: (failures, error) => failures < 2 && isWorthAnotherTry(error), staleTime: 2000 },
  },
});
const place = document.getElementById("portal");
if (!place) throw new Error("the page has no place for the portal");
createRoot(place).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <Shell />
    </QueryClientProvider>
  </StrictMode>,
);
