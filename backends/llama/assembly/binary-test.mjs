// The engine loads its binary in a process of its own first, to see whether that ends it: half a second at each start.
// This backend is such a process already, and its worker sees how it ends.
export const testBindingBinary = async () => true
