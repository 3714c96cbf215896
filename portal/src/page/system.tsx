export default function Analysis() { return null; }
