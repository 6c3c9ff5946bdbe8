// DBOS: a workflow of some recorded steps, called and awaited in the process that runs it. Counted in its
// system tables: workflows that succeeded, with all of their steps.
import { DBOS } from '@dbos-inc/dbos-sdk';
import pg from 'pg';
import { drive } from './driver.js';

drive(async ({ target, clients, steps }) => {
    const workflow = DBOS.registerWorkflow(async (payload) => {
        for (let i = 0; i < steps; i++)
            await DBOS.runStep(async () => payload.data.length, { name: `step${i}` });
    }, { name: 'bench' });
    DBOS.setConfig({
        name: 'bench', systemDatabaseUrl: target, systemDatabasePoolSize: clients, logLevel: 'error',
        runAdminServer: false,
    });
    await DBOS.launch();
    const pool = new pg.Pool({ connectionString: target, max: 1 });
    const number = async (sql) => (await pool.query(sql)).rows[0].n;
    return {
        run: (payload) => workflow(payload),
        async finished() {
            const workflows = await number(
                "SELECT count(*)::int AS n FROM dbos.workflow_status WHERE status = 'SUCCESS'");
            const recorded = await number('SELECT count(*)::int AS n FROM dbos.operation_outputs');
            if (recorded !== workflows * steps)
                throw new Error(`${workflows} workflows recorded ${recorded} steps`);
            return workflows;
        },
        left: () => number("SELECT count(*)::int AS n FROM dbos.workflow_status WHERE status <> 'SUCCESS'"),
    };
});
