/** What could not be found out: no reason for alarm, and none to hide it. */
export function Problems({ title, problems }: { readonly title: string; readonly problems: readonly string[] }) {
  if (problems.length === 0) return null
  return (
    <section aria-label={title} className="rounded-md border px-3 py-2 text-[13px]">
      <p className="text-wait">{title}</p>
      <ul className="max-h-32 overflow-y-auto text-soft">
        {problems.map((problem) => (
          <li key={problem} className="[overflow-wrap:anywhere]">
            {problem}
          </li>
        ))}
      </ul>
    </section>
  )
}
