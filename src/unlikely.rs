//! Values of a job that can be run, and that hardly anybody means: mostly of another unit.

/// Where water freezes and boils at 1 bar, in K.
const FREEZING_K: f64 = 273.15;
const BOILING_K: f64 = 373.15;
/// In bar, about that at the bottom of the deepest sea.
const MAX_PRESSURE_BAR: f64 = 1000.0;
const ATMOSPHERE_BAR: f64 = 1.01325;
/// An atmosphere in other units, and how far a value may be off it to be taken for one. 100 bar are
/// none.
const ATMOSPHERES: [(f64, &str); 4] =
    [(101_325.0, "Pa"), (101.325, "kPa"), (1013.25, "mbar"), (760.0, "Torr")];
const SHARE_OFF: f64 = 0.005;
/// In fs, a tenth of the usual one: bonds to hydrogen are rigid, so that nothing moves faster.
const MIN_TIMESTEP_FS: f64 = 0.2;
/// In 1/ps: beyond it, bonds are damped as they vibrate.
const MAX_FRICTION_PER_PS: f64 = 100.0;

/// What hardly anybody means of a job, by its field. The service runs it as it is, and warns.
///
/// The pressure and the friction are given where a stage has them: in NPT, and in NPT or NVT.
pub fn unlikely_values(
    temperature_k: f64,
    pressure_bar: Option<f64>,
    friction_per_ps: Option<f64>,
    timestep_fs: f64,
) -> Vec<(&'static str, String)> {
    let found = [
        ("temperature", of_temperature(temperature_k)),
        ("pressure", pressure_bar.and_then(of_pressure)),
        ("friction", friction_per_ps.and_then(of_friction)),
        ("integration_timestep", of_timestep(timestep_fs)),
    ];
    found.into_iter().filter_map(|(field, message)| Some((field, message?))).collect()
}

fn of_temperature(kelvin: f64) -> Option<String> {
    if (FREEZING_K..=BOILING_K).contains(&kelvin) {
        return None;
    }
    let (place, meant) = if kelvin > BOILING_K {
        // A point that was left out, as in 3100.
        let tenth = Some(kelvin / 10.0).filter(|tenth| (FREEZING_K..=BOILING_K).contains(tenth));
        let meant = tenth.map(|tenth| format!("{} K", hundredths(tenth)));
        (format!("above {BOILING_K} K, where water boils at 1 bar"), meant)
    } else {
        let celsius = Some(kelvin).filter(|celsius| *celsius > 0.0 && *celsius <= 100.0);
        let meant = celsius.map(|it| format!("{} K ({it} °C)", hundredths(it + FREEZING_K)));
        (format!("below {FREEZING_K} K, where water freezes"), meant)
    };
    let question = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
    Some(format!(
        "{kelvin} K is {place}; force fields and models of water are fitted near 300 K{question}"
    ))
}

fn of_pressure(bar: f64) -> Option<String> {
    let atmosphere = ATMOSPHERES.iter().find(|(value, _)| (bar / value - 1.0).abs() <= SHARE_OFF);
    if let Some((_, unit)) = atmosphere {
        return Some(format!(
            "{bar} is in bar; did you mean {ATMOSPHERE_BAR} bar, about {bar} {unit}?"
        ));
    }
    (bar > MAX_PRESSURE_BAR)
        .then(|| format!("{bar} bar is more than {MAX_PRESSURE_BAR} bar; the air has about 1 bar"))
}

fn of_friction(per_ps: f64) -> Option<String> {
    if per_ps == 0.0 {
        let message = "without friction there is no thermostat: stages of NVT and NPT do not hold \
                       the temperature; 1 ps⁻¹ is usual";
        return Some(message.to_owned());
    }
    (per_ps > MAX_FRICTION_PER_PS).then(|| {
        format!(
            "{per_ps} ps⁻¹ is more than {MAX_FRICTION_PER_PS} ps⁻¹, and keeps atoms from moving far; \
             OpenMM's log then has a temperature that is too high; 1 ps⁻¹ is usual"
        )
    })
}

fn of_timestep(fs: f64) -> Option<String> {
    if fs >= MIN_TIMESTEP_FS {
        return None;
    }
    let of_ps = hundredths(fs * 1000.0);
    let meant = if (0.5..=5.0).contains(&of_ps) {
        format!("; did you mean {of_ps} fs ({fs} ps)?")
    } else {
        String::new()
    };
    Some(format!("{fs} fs is less than a tenth of the usual time step, 2 fs{meant}"))
}

/// 310.0 of 310.000000000004: what is guessed is shown as people write it.
fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperatures_of_liquid_water_are_taken_and_others_told_with_what_may_be_meant() {
        for kelvin in [273.15, 277.0, 298.15, 300.0, 310.15, 373.15] {
            assert_eq!(of_temperature(kelvin), None, "{kelvin}");
        }
        for (kelvin, expected) in [
            (
                3100.0,
                "3100 K is above 373.15 K, where water boils at 1 bar; force fields and models of \
                 water are fitted near 300 K; did you mean 310 K?",
            ),
            (3101.5, "did you mean 310.15 K?"),
            (498.0, "are fitted near 300 K"),
            (37.0, "water are fitted near 300 K; did you mean 310.15 K (37 °C)?"),
            (0.0, "are fitted near 300 K"),
            (200.0, "are fitted near 300 K"),
        ] {
            let told = of_temperature(kelvin).unwrap();
            assert!(told.ends_with(expected), "{told}");
        }
    }

    #[test]
    fn an_atmosphere_in_another_unit_is_told_from_a_high_pressure() {
        for bar in [0.0, 1.0, 1.01325, 100.0, 500.0, 1000.0] {
            assert_eq!(of_pressure(bar), None, "{bar}");
        }
        assert_eq!(
            of_pressure(101_325.0).unwrap(),
            "101325 is in bar; did you mean 1.01325 bar, about 101325 Pa?"
        );
        assert!(of_pressure(760.0).unwrap().ends_with("about 760 Torr?"));
        assert!(of_pressure(3000.0).unwrap().starts_with("3000 bar is more than 1000 bar;"));
    }

    #[test]
    fn a_time_step_in_ps_and_a_thermostat_without_friction_are_told() {
        assert_eq!((of_timestep(2.0), of_timestep(0.5), of_friction(0.01)), (None, None, None));
        let told = of_timestep(0.002).unwrap();
        assert!(told.ends_with("; did you mean 2 fs (0.002 ps)?"), "{told}");
        assert!(of_timestep(1e-6).unwrap().ends_with("2 fs"));
        assert!(of_friction(0.0).unwrap().contains("no thermostat"));
        assert_eq!(of_friction(100.0), None);
        assert!(of_friction(1e4).unwrap().starts_with("10000 ps⁻¹ is more than 100 ps⁻¹"));
    }
}
