// Finds the subscribers of a subject: a tree of tokens, where `*` stands for any one token.

interface Branch<T> {
  readonly next: Map<string, Branch<T>>
  readonly here: Set<T>
}

export interface SubjectTree<T> {
  /** Returns the function that removes the item. */
  add(pattern: string, item: T): () => void
  match(subject: string): T[]
}

export function createSubjectTree<T>(): SubjectTree<T> {
  const root = newBranch<T>()

  return {
    add(pattern, item) {
      const tokens = pattern.split('.')
      let branch = root
      for (const token of tokens) {
        const next = branch.next.get(token) ?? newBranch<T>()
        branch.next.set(token, next)
        branch = next
      }
      branch.here.add(item)
      return () => remove(root, tokens, item)
    },
    match(subject) {
      let branches = [root]
      for (const token of subject.split('.')) {
        const next: Branch<T>[] = []
        for (const branch of branches) {
          const exact = branch.next.get(token)
          const any = branch.next.get('*')
          if (exact !== undefined) next.push(exact)
          if (any !== undefined && any !== exact) next.push(any)
        }
        if (next.length === 0) return []
        branches = next
      }
      return branches.flatMap((branch) => [...branch.here])
    },
  }
}

const newBranch = <T>(): Branch<T> => ({ next: new Map(), here: new Set() })

/** Removes empty branches too: tokens are node and operation ids, without limit. */
function remove<T>(branch: Branch<T>, [token, ...rest]: readonly string[], item: T): void {
  if (token === undefined) {
    branch.here.delete(item)
    return
  }
  const next = branch.next.get(token)
  if (next === undefined) return
  remove(next, rest, item)
  if (next.here.size === 0 && next.next.size === 0) branch.next.delete(token)
}
