/** What the client of orval sends its requests with; it leaves the address to us. */
export async function send<T>(path: string, { base, ...init }: RequestInit & { base?: string }): Promise<T> {
  const response = await fetch(`${base}${path}`, init);
  return { data: await response.json(), status: response.status, headers: response.headers } as T;
}
