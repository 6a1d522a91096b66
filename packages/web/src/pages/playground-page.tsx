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
  const chosen = chooseModel(models.data ?? [], named)
  return (
    <Page title="Playground" sentence={chosen === null ? '' : modelSentence(chosen)}>
      <Loaded
        query={models}
        what="the models"
        empty={
          <Empty title="There is no model to ask yet.">
            <p>
              Take one from{' '}
              <Link to="/models" search={{ tab: 'gallery' }} className="underline">
                the gallery
              </Link>
              , or{' '}
              <Link to="/models/new" className="underline">
                configure one of your own
              </Link>
              .
            </p>
          </Empty>
        }
      >
        {(known) => <Playground models={known} chosen={chosen} named={named} tab={tab} />}
      </Loaded>
    </Page>
  )
}
