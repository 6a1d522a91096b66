// The playground page.
import { useQuery } from '@tanstack/react-query'
import { Link, useSearch } from '@tanstack/react-router'
import { modelsQuery } from '../api/queries.ts'
import { Empty, Loaded } from '../components/loaded.tsx'
import { Page } from '../components/page.tsx'
import { chooseModel, modelSentence } from '../features/playground/playground-words.pure.ts'
import { Playground } from '../features/playground/playground.tsx'

export function PlaygroundPage() {
  const { model: named, tab = 'curl' } = useSearch({ from: '/playground' })
  const models = useQuery(modelsQuery)
  const selected = chooseModel(models.data ?? [], named)
  return (
    <Page title="Playground" sentence={selected === null ? '' : modelSentence(selected)}>
      <Loaded
        query={models}
        what="models"
        empty={
          <Empty title="No models yet.">
            <p>
              Add one from{' '}
              <Link to="/models" search={{ tab: 'gallery' }} className="underline">
                the gallery
              </Link>
              , or{' '}
              <Link to="/models/new" className="underline">
                configure your own
              </Link>
              .
            </p>
          </Empty>
        }
      >
        {(all) => <Playground models={all} selected={selected} named={named} tab={tab} />}
      </Loaded>
    </Page>
  )
}
